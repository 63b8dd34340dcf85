"""How acting grows with actor threads, when a run is given more XLA threads.

    python benchmarks/actors.py

Each row is a process of its own, the rows of one environment alternate, and the table shows the
median of the rounds: environment steps a second, and as a ratio to one actor on one thread.
"""

import argparse
import statistics
import subprocess
import sys
import time

SETTINGS = [(1, 1), (1, 2), (2, 2)]  # (actors, threads)
# The second waits in each step, as a simulator in another process makes its caller wait.
ENVIRONMENTS = ("CartPole-v1", "CartPole-v1, waiting 1 ms a step")


def measure(env_id: str, num_actors: int, threads: int, num_envs: int, seconds: float) -> float:
    """Returns environment steps a second after compiling; runs in a process of its own."""
    from mujax_pipe import runtime

    runtime.prepare(threads)
    import gymnasium as gym
    import numpy as np

    from mujax_pipe import GMZConfig, algorithm_for
    from mujax_pipe.training.environment_loop import EnvironmentLoops
    from mujax_pipe.training.vector_envs import make_batch

    class Waits(gym.Wrapper):
        def step(self, action):
            time.sleep(0.001)
            return self.env.step(action)

    name, _, waits = env_id.partition(",")

    def factory(index: int) -> gym.Env:
        env = gym.make(name)
        return Waits(env) if waits else env

    config = GMZConfig(num_envs=num_envs, num_actors=num_actors)
    share = num_envs // num_actors
    batches = [
        make_batch(factory, share, lambda i, e, n=n: 1000 * (share * n + i) + e)
        for n in range(num_actors)
    ]
    algorithm = algorithm_for(config, batches[0].spec)
    loops = EnvironmentLoops(algorithm, batches, seed=0)
    import jax

    params, step = algorithm.init(jax.random.key(0)), np.int32(0)
    loops.act(params, step, 4)
    started, steps = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        chunk, _ = loops.act(params, step, 8)
        steps += chunk.action.size
    rate = steps / (time.perf_counter() - started)
    loops.close()
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument(
        "--one", nargs=3, metavar=("ENV", "ACTORS", "THREADS"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.one:
        env, actors, threads = options.one
        rate = measure(env, int(actors), int(threads), options.num_envs, options.seconds)
        print(rate)
        return
    found: dict[tuple[str, int, int], list[float]] = {}
    for _ in range(options.rounds):
        for env in ENVIRONMENTS:
            for actors, threads in SETTINGS:
                command = [sys.executable, __file__, "--one", env, str(actors), str(threads)]
                command += ["--num-envs", str(options.num_envs), "--seconds", str(options.seconds)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found.setdefault((env, actors, threads), []).append(float(done.stdout))
    print("| environment | actors | threads | environment steps/s | ratio |")
    print("|:--|--:|--:|--:|--:|")
    for (env, actors, threads), rates in found.items():
        rate = statistics.median(rates)
        ratio = rate / statistics.median(found[env, 1, 1])
        print(f"| {env} | {actors} | {threads} | {rate:,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
