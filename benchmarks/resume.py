"""What exact resume costs: size of `latest/`, seconds to write it and to go on from it.

    python benchmarks/resume.py

For CartPole-v1 with 20,000 transitions in replay, as in params.yaml, and at the default limit.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import jax

from mujax_pipe import CheckpointingConfig, ExperimentConfig, GMZConfig, algorithm_for, runtime
from mujax_pipe.training import schedule
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.experiment import make_batches, make_roles
from mujax_pipe.training.saving import Saver


def make(experiment, directory, stack):
    """Returns the state of a run that has not begun, and its saver."""
    batches = make_batches(experiment, stack)
    roles = make_roles(
        experiment, algorithm_for(experiment.config, batches[0].spec), batches, stack
    )
    state = schedule.start(roles, experiment.evaluation, None)
    saver = Saver(
        directory, roles, state, key="a", every_sec=300.0, resume=True, report=lambda line: None
    )
    return roles, state, saver


def measure(size: int, rounds: int) -> tuple[float, float, float]:
    """Returns megabytes, seconds to write and seconds to restore, of the median round."""
    config = GMZConfig(num_envs=8, batch_size=64, max_replay_size=max(size, 1000))
    experiment = ExperimentConfig(
        config=config,
        environment_factory=environment_factory("CartPole-v1", ()),
        checkpointing=CheckpointingConfig(directory="unused"),
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        directory = Path(folder) / "latest"
        roles, state, saver = make(experiment, directory, stack)
        while state.env_steps < size:
            chunk, _ = roles.loops.act(state.training.average, state.training.step, 100)
            state.replay = roles.replay.add(state.replay, chunk)
            state.env_steps += chunk.action.size
        jax.block_until_ready(state.replay)
        writes, reads = [], []
        for _ in range(rounds):
            started = time.perf_counter()
            saver.save()
            writes.append(time.perf_counter() - started)
        newest = max(directory.iterdir(), key=lambda path: path.stat().st_mtime)
        megabytes = sum(x.stat().st_size for x in newest.rglob("*") if x.is_file()) / 1e6
        for _ in range(rounds):
            _, _, again = make(experiment, directory, stack)
            started = time.perf_counter()
            again.resume()
            reads.append(time.perf_counter() - started)
    return megabytes, statistics.median(writes), statistics.median(reads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 100_000])
    options = parser.parse_args()
    runtime.prepare()
    print("| transitions in replay | `latest/`, MB | seconds to write | seconds to restore |")
    print("|--:|--:|--:|--:|")
    for size in options.sizes:
        megabytes, write, read = measure(size, options.rounds)
        print(f"| {size:,} | {megabytes:.1f} | {write:.2f} | {read:.2f} |")


if __name__ == "__main__":
    main()
