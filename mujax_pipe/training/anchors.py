"""The score that needs no learning: a policy that draws among the legal actions.

Nothing that trains or evaluates a cell imports this, so a change here trains nothing again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mujax_pipe.layout import EnvironmentFiles
from mujax_pipe.params import Params
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.files import require_writable, write_json
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.vector_envs import make_batch


def measure_random(params: Params, env: str, root: Path = Path()) -> None:
    """Plays an environment's final episodes at random; writes `random.json`.

    The episodes are those of the final evaluation; each has a generator of its own for its actions.
    """
    files = EnvironmentFiles(env, root)
    require_writable(files.directory)
    environment = params.environments[env]
    episodes = params.evaluation[env].episodes
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    one = make_batch(
        environment_factory(environment.id, environment.wrappers),
        1,
        lambda _, episode: episode_seed(Episodes.FINAL, episode),
    )
    _, invalid = one.reset()
    for episode in range(episodes):
        # Not of the seed alone: the environment draws from that generator itself.
        generator = np.random.default_rng([episode_seed(Episodes.FINAL, episode), 1])
        over = False
        while not over:
            answer = one.step(generator.choice(np.flatnonzero(~invalid[0]), size=1))
            returns[episode] += answer.reward[0]
            lengths[episode] += 1
            over = bool(answer.terminated[0] or answer.truncated[0])
            invalid = answer.invalid_actions
    one.close()
    write_json(
        files.random,
        {
            "environment": environment.id,
            "episodes": episodes,
            "mean": float(np.mean(returns)),
            "std": float(np.std(returns, ddof=1)) if episodes > 1 else 0.0,
            "mean_length": float(np.mean(lengths)),
        },
    )
    print(f"{env}: at random, mean return {np.mean(returns):.4g} over {episodes:,} episodes")
