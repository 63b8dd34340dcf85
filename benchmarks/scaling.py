"""How cost grows: with replay, simulations, environments, the batch, and a grid with cores.

    python benchmarks/scaling.py            # about ten minutes; wants a quiet machine
    python benchmarks/scaling.py replay     # that part alone, anew

Gumbel MuZero of the default size on shapes of CartPole-v1, one XLA thread. Each point is the
fastest of several calls after compiling, in a process of its own. Numbers go to
benchmarks/results/scaling.json, the plot to docs/figures/scaling.png.
"""

import argparse
import copy
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mujax_pipe import runtime

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "scaling.json"
FIGURE = ROOT / "docs" / "figures" / "scaling.png"

REPLAY = (10_000, 100_000, 500_000, 2_000_000)
SIMULATIONS = (4, 8, 16, 32, 64, 128)
ENVIRONMENTS = (1, 4, 16, 64, 256)
BATCH = (32, 64, 128, 256, 512)
PARTS = ("replay", "simulations", "environments", "batch", "cores")


def seconds_of(call: Callable[[], Any], rounds: int = 7) -> float:
    """Returns the least seconds of a call: what others on the machine take is not ours."""
    import jax

    jax.block_until_ready(call())
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - started)
    return min(taken)


def resident_mb() -> float:
    """Returns the memory of this process that is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def learner_step(**settings: Any) -> dict[str, float]:
    """Measures a learner step with a full replay, and what the process then holds."""
    import jax
    import numpy as np

    from mujax_pipe import GMZConfig, algorithm_for
    from mujax_pipe.agents.types import EnvironmentSpec
    from mujax_pipe.training.learner import Learner
    from mujax_pipe.training.replay import Replay, empty_transition

    config, spec = GMZConfig(**settings), EnvironmentSpec(observation_dim=4, num_actions=2)
    algorithm, replay = algorithm_for(config, spec), Replay(config, spec)
    learner = Learner(algorithm, replay, seed=0)
    state, length = replay.init(), config.max_replay_size // config.num_envs
    shape = (config.num_envs, min(length, 500))
    chunk = jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), empty_transition(spec))
    chunk = dataclasses.replace(
        chunk, discount=np.ones(shape, np.float32), policy_probs=chunk.policy_probs + 0.5
    )
    for _ in range(length // shape[1]):
        state = replay.add(state, chunk)
    jax.block_until_ready(state)
    held = resident_mb()
    training = learner.init()

    def steps() -> Any:
        nonlocal training
        training, _ = learner.advance(training, state, 4)
        return training

    return {
        "seconds": seconds_of(steps, 5) / 4,
        "resident_mb": held,
        "projected_mb": replay.num_bytes / 1e6,
    }


def search(**settings: Any) -> dict[str, float]:
    """Measures a search of 16 states."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from mujax_pipe import GMZConfig, algorithm_for
    from mujax_pipe.agents.types import EnvironmentSpec

    config, spec = GMZConfig(**settings), EnvironmentSpec(observation_dim=4, num_actions=2)
    algorithm = algorithm_for(config, spec)
    params, key = algorithm.init(jax.random.key(0)), jax.random.key(1)
    run = jax.jit(
        lambda params, x, mask: algorithm.search(params, key, x, mask, jnp.int32(0), explore=True)
    )
    roots = np.zeros((config.num_envs, 4), np.float32), np.zeros((config.num_envs, 2), bool)
    return {"seconds": seconds_of(lambda: run(params, *roots), 15)}


def acting(num_envs: int) -> dict[str, float]:
    """Measures acting in CartPole itself, a chunk of 8 steps."""
    import gymnasium as gym
    import jax
    import numpy as np

    from mujax_pipe import GMZConfig, algorithm_for
    from mujax_pipe.training.environment_loop import EnvironmentLoops
    from mujax_pipe.training.vector_envs import make_batch

    config = GMZConfig(num_envs=num_envs)
    batch = make_batch(lambda _: gym.make("CartPole-v1"), num_envs, lambda i, e: 1000 * i + e)
    algorithm = algorithm_for(config, batch.spec)
    loops = EnvironmentLoops(algorithm, [batch], seed=0)
    params = algorithm.init(jax.random.key(0))
    seconds = seconds_of(lambda: loops.act(params, np.int32(0), 8)[0].reward)
    loops.close()
    return {"seconds": seconds / (8 * num_envs)}


POINTS: dict[str, tuple[tuple[int, ...], Callable[[int], dict[str, float]]]] = {
    "replay": (REPLAY, lambda size: learner_step(max_replay_size=size, min_replay_size=1000)),
    "simulations": (SIMULATIONS, lambda number: search(num_simulations=number)),
    "environments": (ENVIRONMENTS, acting),
    "batch": (BATCH, lambda size: learner_step(batch_size=size)),
    "cores": (tuple(range(1, (os.cpu_count() or 1) + 1)), lambda cores: {"seconds": grid(cores)}),
}


def measured(part: str) -> Iterator[dict[str, float]]:
    """Yields what was measured at each value of what grows."""
    if part == "cores":
        grid(os.cpu_count() or 1)  # Compiles for all.
    for at in POINTS[part][0]:
        command = [sys.executable, __file__, "--one", part, str(at)]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        print(" ", output.splitlines()[-1], flush=True)
        yield json.loads(output.splitlines()[-1])


def grid(cores: int) -> float:
    """Returns the seconds of a grid of four short cells, from Snakemake's start to its end."""
    import yaml

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("mujax_pipe", "workflow"):
            (folder / each).symlink_to(ROOT / each)
        for each in ("fingerprint.json", "constraints.txt"):
            shutil.copy(ROOT / each, folder)
        params = copy.deepcopy(yaml.safe_load((ROOT / "params.yaml").read_text()))
        params["grid"] = {"algo": ["gmz"], "env": ["cartpole"], "seed": [1000, 1001, 1002, 1003]}
        params["demo"] = params["grid"]
        params["environments"]["cartpole"]["num_env_steps"] = 4000
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        cells = [f"results/cells/gmz/cartpole/seed-{seed}/train.json" for seed in range(1000, 1004)]
        command = ["snakemake", "--cores", str(cores), "--quiet", "all", "--", *cells]
        started = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return time.perf_counter() - started


def plot(found: dict[str, Any]) -> None:
    """Draws one panel for each thing that grows."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    labels = {
        "replay": ("transitions in replay", "ms a learner step", "log"),
        "simulations": ("simulations", "ms a search of 16 states", "linear"),
        "environments": ("environments side by side", "ms an environment step", "log"),
        "batch": ("batch size", "ms a learner step", "linear"),
    }
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
    for axis, (part, (x, y, scale)) in zip(axes.flat, labels.items(), strict=False):
        values = found[part]
        axis.plot([p["at"] for p in values], [1e3 * p["seconds"] for p in values], "o-")
        axis.set(xlabel=x, ylabel=y, xscale=scale)
        axis.set_ylim(0, None)
    memory, cores = axes.flat[4:]
    first, *values = found["replay"]
    for name, label, style in (("resident_mb", "taken", "o-"), ("projected_mb", "projected", "--")):
        more = [p[name] - first[name] for p in values]
        memory.plot([p["at"] for p in values], more, style, label=label)
    memory.set(xlabel="transitions in replay", ylabel=f"MB more than for {first['at']:,}")
    memory.set(xscale="log", yscale="log")
    memory.legend(frameon=False)
    cores.plot([p["at"] for p in found["cores"]], [p["seconds"] for p in found["cores"]], "o-")
    cores.set(xlabel="--cores", ylabel="s for a grid of 4 cells")
    cores.set_ylim(0, None)
    cores.set_xticks([p["at"] for p in found["cores"]])
    figure.savefig(FIGURE, dpi=120, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}, or plot; without: all")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        runtime.prepare(1)
        part, at = options.one[0], int(options.one[1])
        print(json.dumps({"at": at, **POINTS[part][1](at)}))
        return
    if unknown := set(options.parts) - {*PARTS, "plot"}:
        parser.error(f"{', '.join(sorted(unknown))}: allowed are {', '.join(PARTS)}, plot")
    found = json.loads(RESULTS.read_text()) if options.parts and RESULTS.exists() else {}
    for part in (part for part in options.parts or PARTS if part != "plot"):
        print(part, flush=True)
        found[part] = list(measured(part))
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    if found.keys() >= set(PARTS):
        plot(found)


if __name__ == "__main__":
    main()
