"""What it takes to solve CartPole-v1: environment steps and core-seconds until 500.0, by ten seeds.

    python benchmarks/solve.py              # about an hour on two cores
    python benchmarks/solve.py --seeds 2000,2001 --who gmz

Solved is a mean of 500.0 over 32 episodes with fixed seeds at two evaluations in a row, one every
1,000 environment steps; the first of the two counts. Ours trains with the settings of params.yaml,
PPO and DQN are those of Stable-Baselines3 with the settings of its zoo, in an environment of their
own, over the zoo's lengths; ours are given as many environment steps as DQN. No setting was chosen
on these seeds. Core-seconds are what a process took of all cores: start, compilation and evaluation
count. Runs that are in benchmarks/results/solve.csv are not run again while what they ran is the
same.
"""

import argparse
import csv
import dataclasses
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "solve.csv"
BASELINES = "stable-baselines3==2.9.2"
BASELINES_HOME = ROOT / "scratch" / "baselines"
WHO = ("gmz", "smz", "ppo", "dqn")
COLUMNS = ("who", "seed", "solved", "env_steps", "core_seconds", "best", "source")
EVERY, EPISODES, GOAL = 1000, 32, 500.0
# The zoo's own lengths, over which rates and exploration decay; and ours.
LIMIT = {"gmz": 50_000, "smz": 50_000, "ppo": 100_000, "dqn": 50_000}


class Until:
    """Ends the process when the goal was reached twice in a row, and prints what it took."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None
        self._best = 0.0

    def score(self, score: float, env_steps: int) -> None:
        """Takes in an evaluation."""
        now = env_steps, time.process_time()
        self._best = max(self._best, score)
        if score < GOAL:
            self._before = None
        elif self._before is None:
            self._before = now
        else:
            self.end(*self._before, solved=True)

    def end(self, env_steps: int, core_seconds: float, *, solved: bool) -> None:
        """Prints the result and leaves."""
        found = {
            "solved": int(solved),
            "env_steps": env_steps,
            "core_seconds": round(core_seconds, 1),
            "best": round(self._best, 1),
        }
        print("RESULT " + json.dumps(found), flush=True)
        os._exit(0)


def run_ours(algo: str, seed: int, until: Until) -> None:
    """Trains with mujax_pipe until the process ends."""
    from mujax_pipe import runtime

    runtime.prepare(1)
    import gymnasium as gym

    from mujax_pipe import CheckpointingConfig, EvaluationConfig, ExperimentConfig, run_experiment
    from mujax_pipe.layout import Cell
    from mujax_pipe.params import load_params

    config = load_params(ROOT / "params.yaml").config(Cell(algo=algo, env="cartpole", seed=seed))
    every = round(EVERY * config.replay_ratio / config.batch_size)

    class Watch:
        def write(self, step: int, scalars: Mapping[str, float]) -> None:
            if "evaluator/score" in scalars:
                until.score(scalars["evaluator/score"], config.env_steps_for(step))

        def write_config(self, config: Mapping[str, Any]) -> None: ...

        def close(self) -> None: ...

    with tempfile.TemporaryDirectory() as folder:
        run_experiment(
            ExperimentConfig(
                config=config,
                environment_factory=lambda index: gym.make("CartPole-v1"),
                max_num_learner_steps=config.learner_steps_within(LIMIT[algo]),
                seed=seed,
                evaluation=EvaluationConfig(every=every, num_episodes=EPISODES),
                checkpointing=CheckpointingConfig(directory=folder, every_sec=0),
                writers=[Watch()],
            )
        )
    until.end(LIMIT[algo], time.process_time(), solved=False)


def run_baseline(who: str, seed: int, until: Until) -> None:
    """Trains with Stable-Baselines3, on one thread, until the process ends."""
    import gymnasium as gym
    import torch
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    def decay(rate: float) -> Any:
        return lambda left: left * rate

    class Score(BaseCallback):
        due = EVERY

        def _on_step(self) -> bool:
            if self.num_timesteps >= self.due:
                self.due += EVERY
                until.score(play(self.model), self.num_timesteps)
            return True

    def play(model: Any) -> float:
        envs = [gym.make("CartPole-v1") for _ in range(EPISODES)]
        seen = [env.reset(seed=10_000 + i)[0] for i, env in enumerate(envs)]
        returns, open_ = [0.0] * EPISODES, [*range(EPISODES)]
        import numpy as np

        while open_:
            actions, _ = model.predict(np.stack([seen[i] for i in open_]), deterministic=True)
            left = []
            for i, action in zip(open_, actions, strict=True):
                seen[i], reward, terminated, truncated, _ = envs[i].step(int(action))
                returns[i] += float(reward)
                if not (terminated or truncated):
                    left.append(i)
            open_ = left
        return sum(returns) / EPISODES

    if who == "ppo":
        model: Any = PPO(
            "MlpPolicy",
            make_vec_env("CartPole-v1", n_envs=8, seed=seed),
            n_steps=32,
            batch_size=256,
            gae_lambda=0.8,
            gamma=0.98,
            n_epochs=20,
            ent_coef=0.0,
            learning_rate=decay(0.001),
            clip_range=decay(0.2),
            seed=seed,
            device="cpu",
        )
    else:
        model = DQN(
            "MlpPolicy",
            make_vec_env("CartPole-v1", n_envs=1, seed=seed),
            learning_rate=0.0023,
            batch_size=64,
            buffer_size=100_000,
            learning_starts=1000,
            gamma=0.99,
            target_update_interval=10,
            train_freq=256,
            gradient_steps=128,
            exploration_fraction=0.16,
            exploration_final_eps=0.04,
            policy_kwargs={"net_arch": [256, 256]},
            seed=seed,
            device="cpu",
        )
    model.learn(LIMIT[who], callback=Score())
    until.end(LIMIT[who], time.process_time(), solved=False)


def source_of(who: str) -> str:
    """Names what a run of ours, or of the baselines, is made of."""
    if who in ("ppo", "dqn"):
        return BASELINES
    from mujax_pipe.fingerprint import source_digest
    from mujax_pipe.layout import Cell
    from mujax_pipe.params import load_params

    config = load_params(ROOT / "params.yaml").config(Cell(algo=who, env="cartpole", seed=0))
    parts = (source_digest(), LIMIT[who], dataclasses.asdict(config))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def attempt(who: str, seed: int) -> None:
    """Runs one seed in a process of its own, and notes it."""
    baseline = who in ("ppo", "dqn")
    python = BASELINES_HOME / "bin" / "python" if baseline else Path(sys.executable)
    # Cold: what an earlier run compiled does not count.
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, __file__, "--one", who, str(seed)], capture_output=True, text=True, env=environment
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        print(f"{who} {seed} failed:\n{done.stdout}{done.stderr}", flush=True)
        return
    found = {"who": who, "seed": seed, **json.loads(lines[-1].removeprefix("RESULT "))}
    found["source"] = source_of(who)
    new = not RESULTS.exists()
    with RESULTS.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(found)
    print(*found.values(), flush=True)


def rows() -> list[dict[str, str]]:
    """Returns the runs so far, of what would run today."""
    if not RESULTS.exists():
        return []
    today = {who: source_of(who) for who in WHO}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row.get("source") == today[row["who"]]]


def show() -> None:
    """Prints medians and the worst seed."""
    print("\n| who | solved | environment steps, median | worst | core-seconds, median | worst |")
    print("|:--|--:|--:|--:|--:|--:|")
    for who in WHO:
        mine = [row for row in rows() if row["who"] == who]
        if mine:
            steps = [float(row["env_steps"]) for row in mine]
            seconds = [float(row["core_seconds"]) for row in mine]
            solved = f"{sum(int(row['solved']) for row in mine)} of {len(mine)}"
            print(
                f"| {who} | {solved} | {statistics.median(steps):,.0f} | {max(steps):,.0f} "
                f"| {statistics.median(seconds):.0f} | {max(seconds):.0f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--who", default=",".join(WHO))
    parser.add_argument("--seeds", default=",".join(map(str, range(2000, 2010))))
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        who, seed = options.one
        run = run_baseline if who in ("ppo", "dqn") else run_ours
        run(who, int(seed), Until())
        return
    if not (BASELINES_HOME / "bin" / "python").exists():
        print(f"installing {BASELINES} into {BASELINES_HOME.relative_to(ROOT)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", BASELINES_HOME], check=True)
        pip = [BASELINES_HOME / "bin" / "python", "-m", "pip", "install", "--quiet", BASELINES]
        subprocess.run(pip, check=True)
    finished = {(row["who"], row["seed"]) for row in rows()}
    wanted = [
        (who, int(seed))
        for seed in options.seeds.split(",")
        for who in options.who.split(",")
        if (who, seed) not in finished
    ]
    with ThreadPoolExecutor(options.cores) as pool:
        list(pool.map(lambda each: attempt(*each), wanted))
    show()


if __name__ == "__main__":
    main()
