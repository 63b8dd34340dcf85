"""How often uniformly drawn actions reach what an environment rewards, held for longer and longer.

    python benchmarks/reach.py

Every action is drawn (`exploration` 1), nothing is learned. Prints the share of episodes that come
to their end before the time limit, by the longest stretch that an action is held for
(`exploration_repeat`), in the environments of params.yaml that say nothing until then.
"""

import argparse
from pathlib import Path

import numpy as np

from mujax_pipe import runtime

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ("cliffwalking", "mountaincar", "acrobot")
LONGEST = (1, 16, 64)
NUM_ENVS, SEED = 32, 1000


def reached(env: str, longest: int, env_steps: int) -> float:
    """Returns the share of episodes that terminated, of those that ended."""
    import jax

    from mujax_pipe import GMZConfig, algorithm_for
    from mujax_pipe.params import load_params
    from mujax_pipe.training.environment_loop import EnvironmentLoops
    from mujax_pipe.training.envs import environment_factory
    from mujax_pipe.training.keys import Episodes, episode_seed
    from mujax_pipe.training.vector_envs import make_batch

    config = GMZConfig(
        num_envs=NUM_ENVS, num_simulations=1, exploration=(1.0,), exploration_repeat=longest
    ).with_size("XS")
    environment = load_params(ROOT / "params.yaml").environments[env]
    batch = make_batch(
        environment_factory(environment.id, environment.wrappers),
        NUM_ENVS,
        lambda index, episode: episode_seed(Episodes.TRAINING, SEED, index, episode),
    )
    algorithm = algorithm_for(config, batch.spec)
    loops = EnvironmentLoops(algorithm, [batch], SEED)
    steps, episodes = loops.act(
        algorithm.init(jax.random.key(SEED)), np.int32(0), env_steps // NUM_ENVS
    )
    loops.close()
    return float((steps.discount == 0.0).sum() / len(episodes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-steps", type=int, default=40_000)
    options = parser.parse_args()
    runtime.prepare(1)
    print("| environment |", " | ".join(map(str, LONGEST)), "|")
    print("|:--|" + "--:|" * len(LONGEST))
    for env in ENVIRONMENTS:
        shares = [f"{100 * reached(env, longest, options.env_steps):.1f} %" for longest in LONGEST]
        print(f"| {env} |", " | ".join(shares), "|", flush=True)


if __name__ == "__main__":
    main()
