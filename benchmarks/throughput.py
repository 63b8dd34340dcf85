"""Learner and environment steps a second, side by side with mujax on the same work.

    python benchmarks/throughput.py                     # everything, an hour or two
    python benchmarks/throughput.py --case S --rounds 1 --algo gmz

The peer is installed into an environment of its own. Both are measured through their public Python
API: the same writer notes the learner step and the time, the same wrapper counts environment steps,
and a run is stopped after some seconds of steady state. Ours has one XLA thread a run, the peer all
cores, as each has it by default. Runs alternate, alone and two side by side; the rates of two are
added up. The table shows medians over rounds; what is measured anew replaces its row in
benchmarks/results/throughput.json.
"""

import argparse
import dataclasses
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PEER = "mujax==0.1.3"
ROOT = Path(__file__).resolve().parents[1]
PEER_HOME = ROOT / "scratch" / "peer"
RESULTS = ROOT / "benchmarks" / "results" / "throughput.json"

NUM_ENVS = 16
# The work, the same in both.
COMMON = {
    "batch_size": 256,
    "num_simulations": 16,
    "reanalyze_ratio": 0.5,
    "replay_ratio": 2.0,
    "min_replay_size": 2000,
    "max_replay_size": 100_000,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """What is trained: a size as each library has it, or ours with the peer's layers and bins."""

    env: str
    size: str
    same_layers: bool = False


CASES = {
    "S": Case("CartPole-v1", "S"),
    "M": Case("CartPole-v1", "M"),
    "wide": Case("wide", "S"),  # 8 actions, 100 numbers an observation
    "layers": Case("CartPole-v1", "S", same_layers=True),
}


class Clock:
    """A writer of either library: notes when which learner step was logged, then ends the run."""

    def __init__(self, counted: list[int], warm_up: float, seconds: float):
        self._counted, self._warm_up, self._seconds = counted, warm_up, seconds
        self._began = time.perf_counter()
        self._first = 0.0  # when the first learner steps were logged
        self._marks: list[tuple[float, int, int]] = []

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        if not any(name.startswith("learner/") for name in scalars) or step < 1:
            return
        now = time.perf_counter()
        self._first = self._first or now
        if now - self._first < self._warm_up:
            return
        self._marks.append((now, int(step), self._counted[0]))
        if now - self._marks[0][0] >= self._seconds:
            self._end()

    def _end(self) -> None:
        import resource

        wall, steps, env_steps = (
            last - first for first, last in zip(self._marks[0], self._marks[-1], strict=True)
        )
        found = {
            "learner_steps": steps / wall,
            "env_steps": env_steps / wall,
            "first_logged": self._first - self._began,
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        }
        print("RESULT " + json.dumps(found), flush=True)
        os._exit(0)  # Threads of either library go with it.

    def write_config(self, config: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def make_environment(name: str, counted: list[int]) -> Any:
    """Makes CartPole, or a task of 8 actions and 100 numbers; counts its steps."""
    import gymnasium as gym
    import numpy as np

    class Wide(gym.Env):
        """Random observations, episodes of 200 steps: the work of a search, none of a simulator."""

        observation_space = gym.spaces.Box(-np.inf, np.inf, (100,), np.float32)
        action_space = gym.spaces.Discrete(8)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self._steps = 0
            return self.np_random.standard_normal(100, np.float32), {}

        def step(self, action: Any) -> Any:
            self._steps += 1
            observation = self.np_random.standard_normal(100, np.float32)
            return observation, float(observation[action]), False, self._steps >= 200, {}

    class Counted(gym.Wrapper):
        def step(self, action: Any) -> Any:
            counted[0] += 1
            return self.env.step(action)

    return Counted(Wide() if name == "wide" else gym.make(name))


def run_ours(algo: str, case: Case, clock: Clock, counted: list[int], folder: str) -> None:
    """Trains with mujax_pipe until the clock ends the process."""
    from mujax_pipe import CheckpointingConfig, EvaluationConfig, ExperimentConfig, run_experiment
    from mujax_pipe.config import CONFIGS

    config = dataclasses.replace(
        CONFIGS[algo]().with_size(case.size),
        **COMMON,
        bootstrap_steps=10,  # the peer's
        num_envs=NUM_ENVS,
        num_learner_steps=10_000_000,
    )
    if case.same_layers:
        names = [f.name for f in dataclasses.fields(config) if f.name.endswith("_layer_sizes")]
        layers = dict.fromkeys(names, (128, 128))
        config = dataclasses.replace(
            config, **layers, embedding_dim=32, num_bins=255, bin_limit=20.0
        )
    run_experiment(
        ExperimentConfig(
            config=config,
            environment_factory=lambda index: make_environment(case.env, counted),
            evaluation=EvaluationConfig(every=2**30, num_episodes=1),
            checkpointing=CheckpointingConfig(directory=folder, every_sec=0),
            writers=[clock],
            log_every=1,
        )
    )


def run_peer(algo: str, case: Case, clock: Clock, counted: list[int], folder: str) -> None:
    """Trains with mujax until the clock ends the process."""
    import gymnasium as gym
    import mujax
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    kinds = {"gmz": mujax.GMZConfig, "smz": mujax.SMZConfig}
    config = dataclasses.replace(kinds[algo]().with_size(case.size), **COMMON)

    def environments(seed: int) -> gym.vector.VectorEnv:
        makers = [lambda: make_environment(case.env, counted)] * NUM_ENVS
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)

    mujax.run_experiment(
        mujax.ExperimentConfig(
            config=config, environment_factory=environments, writer=clock, checkpointing=None
        )
    )


def measure(who: str, algo: str, case: str, side_by_side: int, options: Any) -> dict[str, float]:
    """Runs processes side by side; returns the sums of their rates, and the largest of the rest."""
    python = PEER_HOME / "bin" / "python" if who == "peer" else Path(sys.executable)
    times = [str(options.warm_up), str(options.seconds)]
    command = [str(python), __file__, "--one", who, algo, case, *times]
    environment = {k: v for k, v in os.environ.items() if k not in ("NPROC", "XLA_FLAGS")}
    # Ours keeps compiled programs by itself; what is measured comes after compiling.
    if who == "peer":
        environment["JAX_COMPILATION_CACHE_DIR"] = str(PEER_HOME / "compiled")
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(side_by_side)
    ]
    found = []
    for process in processes:
        out, errors = process.communicate(timeout=1800)
        lines = [line for line in out.splitlines() if line.startswith("RESULT ")]
        if not lines:
            sys.exit(f"{' '.join(command)} failed:\n{out}{errors}")
        found.append(json.loads(lines[-1].removeprefix("RESULT ")))
    rates = {name: sum(one[name] for one in found) for name in ("learner_steps", "env_steps")}
    return rates | {name: max(one[name] for one in found) for name in ("first_logged", "memory_mb")}


def one(who: str, algo: str, case: str, warm_up: float, seconds: float) -> None:
    """Measures in this process, which ends from within the writer."""
    if who == "ours":
        from mujax_pipe import runtime

        runtime.prepare(1)
    counted = [0]
    clock = Clock(counted, warm_up, seconds)
    threading.Timer(900, lambda: os._exit(1)).start()
    with tempfile.TemporaryDirectory() as folder:
        run = run_ours if who == "ours" else run_peer
        run(algo, CASES[case], clock, counted, folder)


def install_peer() -> None:
    """Makes the peer's environment, once."""
    if (PEER_HOME / "bin" / "mujax").exists():
        return
    print(f"installing {PEER} into {PEER_HOME.relative_to(ROOT)} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", PEER_HOME], check=True)
    pip = [PEER_HOME / "bin" / "python", "-m", "pip", "install", "--quiet", PEER]
    subprocess.run(pip, check=True)


def versions(python: Path | str) -> dict[str, str]:
    """Returns the versions of what decides speed in an environment."""
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({n: m.version(n) for n in ('jax', 'jaxlib', 'flax', 'mctx', 'numpy')}))"
    )
    return dict(json.loads(subprocess.check_output([python, "-c", code], text=True)))


def machine() -> str:
    """Names the processor and its cores."""
    from mujax_pipe.training.machine import cpu

    return f"{cpu()}, {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm-up", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--case", choices=[*CASES], action="append")
    parser.add_argument("--algo", choices=["gmz", "smz"], action="append")
    parser.add_argument("--runs", type=int, choices=[1, 2], action="append")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        who, algo, case, warm_up, seconds = options.one
        one(who, algo, case, float(warm_up), float(seconds))
        return
    from mujax_pipe.fingerprint import source_digest

    who_runs = ["ours"] if options.ours_only else ["ours", "peer"]
    if "peer" in who_runs:
        install_peer()
    record = load()
    pairs = itertools.product(
        options.case or [*CASES], options.algo or ["gmz", "smz"], options.runs or [1, 2]
    )
    for case, algo, number in pairs:
        found: dict[str, list[dict[str, float]]] = {}
        for _ in range(options.rounds):
            for who in who_runs:
                rates = measure(who, algo, case, number, options)
                found.setdefault(who, []).append(rates)
                print(case, algo, number, who, json.dumps(rates), flush=True)
        names = {"case": case, "algo": algo, "side_by_side": number}
        for who, rounds in found.items():
            median = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
            times = {"rounds": options.rounds, "seconds": options.seconds}
            record["rows"][":".join(map(str, (*names.values(), who)))] = {
                **names, "who": who, **median, **times, "source": source_digest()[:12]
            }  # fmt: skip
        if not options.ours_only:
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    show([*record["rows"].values()])


def load() -> dict[str, Any]:
    """Returns what was measured on this machine before, with the machine and versions of now."""
    record: dict[str, Any] = {
        "machine": machine(),
        "peer": PEER,
        "versions": {
            who: versions(python)
            for who, python in (("ours", sys.executable), ("peer", PEER_HOME / "bin" / "python"))
            if Path(python).exists()
        },
        "rows": {},
    }
    if RESULTS.exists():
        before = json.loads(RESULTS.read_text())
        if before["machine"] == record["machine"] and before["versions"] == record["versions"]:
            record["rows"] = before["rows"]
    return record


def show(rows: list[dict[str, Any]]) -> None:
    """Prints a table: rates, and ours as a ratio to the peer's with as many runs side by side."""
    by = {(r["case"], r["algo"], r["side_by_side"], r["who"]): r for r in rows}
    print(
        "\n| case | algorithm | runs | who | learner steps/s | environment steps/s | MB | ratio |"
    )
    print("|:--|:--|--:|:--|--:|--:|--:|--:|")
    for (case, algo, number, who), row in by.items():
        peer = by.get((case, algo, number, "peer"))
        ratio = f"{row['learner_steps'] / peer['learner_steps']:.2f}" if peer else ""
        rates = f"{row['learner_steps']:.1f} | {row['env_steps']:,.0f} | {row['memory_mb']:,.0f}"
        print(f"| {case} | {algo} | {number} | {who} | {rates} | {ratio} |")


if __name__ == "__main__":
    main()
