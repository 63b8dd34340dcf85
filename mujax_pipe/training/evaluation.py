"""Scoring a policy on episodes with fixed seeds, many at once, without noise."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import Array, Params
from mujax_pipe.errors import RunError, UserError
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training.devices import acting_device, placed
from mujax_pipe.training.envs import EnvironmentFactory
from mujax_pipe.training.keys import Episodes, Purpose, episode_seed, key_for
from mujax_pipe.training.vector_envs import make_batch

# Episodes played side by side: wider only pays until the network fills the core.
SIDE_BY_SIDE = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Played:
    """Finished episodes, in the order of their seeds."""

    seed: np.ndarray  # [E] reset seeds
    episode_return: np.ndarray  # [E] undiscounted
    length: np.ndarray  # [E] steps
    score: np.ndarray  # [E] the metric asked for


class Evaluator:
    """Plays the same episodes at every call. Owns its environments: training is never disturbed.

    Args:
      algorithm: searches without noise.
      factory: makes one environment.
      family: which seeds; selection and final evaluation never share one.
      num_episodes: E.
      score_metric: `episode_return`, or a key of the info of an episode's last step.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        factory: EnvironmentFactory,
        family: Episodes,
        num_episodes: int,
        score_metric: str = "episode_return",
    ):
        self._num_episodes = num_episodes
        self._metric = score_metric
        # A vector environment brings its own width, so seeds are asked for only once it is known.
        self._family = family
        self._environments = make_batch(factory, min(num_episodes, SIDE_BY_SIDE), self._seed_of)
        # The search takes a key but, without noise, does not depend on it.
        key = key_for(0, Purpose.EVALUATE)

        def search(params: Params, step: Array, observation: Array, invalid: Array) -> Array:
            return algorithm.search(params, key, observation, invalid, step, explore=False).action

        self._search = jax.jit(search)
        self._device = acting_device(algorithm.config.actor_device)

    def play(self, params: Params, step: Array) -> Played:
        """Plays every episode once.

        Raises:
          UserError: an episode's last info lacks the score metric.
        """
        params, step = placed((params, step), self._device)
        width = len(self._environments)
        returns, lengths = np.zeros(width), np.zeros(width, np.int64)
        table = {name: np.zeros(self._num_episodes) for name in ("return", "length", "score")}
        remaining = self._num_episodes
        observation, invalid = self._environments.reset()
        while remaining:
            number = self._environments.episode * width + np.arange(width)
            answer = self._environments.step(
                np.asarray(self._search(params, step, observation, invalid))
            )
            observation, invalid = answer.observation, answer.invalid_actions
            returns += answer.reward
            lengths += 1
            for i in np.flatnonzero(answer.terminated | answer.truncated):
                if number[i] < self._num_episodes:
                    table["return"][number[i]] = returns[i]
                    table["length"][number[i]] = lengths[i]
                    table["score"][number[i]] = self._score(returns[i], answer.final_info[i] or {})
                    remaining -= 1
                returns[i], lengths[i] = 0.0, 0
        seeds = [self._seed_of(i % width, i // width) for i in range(self._num_episodes)]
        if not np.isfinite(table["score"]).all():
            worst = int(np.flatnonzero(~np.isfinite(table["score"]))[0])
            raise RunError(
                f"evaluation episode {worst} (reset seed {seeds[worst]}) scored "
                f"{table['score'][worst]} in {self._metric}: the environment must return finite "
                "rewards and infos"
            )
        return Played(
            seed=np.array(seeds, np.int64),
            episode_return=table["return"],
            length=table["length"].astype(np.int64),
            score=table["score"],
        )

    def _seed_of(self, index: int, episode: int) -> int:
        return episode_seed(self._family, episode * len(self._environments) + index)

    def close(self) -> None:
        """Closes the environments."""
        self._environments.close()

    def _score(self, episode_return: float, info: dict[str, object]) -> float:
        if self._metric == "episode_return":
            return episode_return
        if self._metric not in info:
            raise UserError(
                f"score_metric is {self._metric!r}: the last info of an episode holds "
                f"{', '.join(sorted(info)) or 'nothing'}; allowed are those and episode_return"
            )
        return float(info[self._metric])  # type: ignore[arg-type]


@dataclasses.dataclass(kw_only=True)
class Selection:
    """Which evaluation is the best so far, and whether to stop. Part of the run's state."""

    config: EvaluationConfig
    smoothed: float | None = None
    best_score: float | None = None
    best_step: int = 0
    best_env_steps: int = 0
    reference: float | None = None
    stale: int = 0

    def update(self, score: float, step: int, env_steps: int) -> bool:
        """Takes in a score; returns whether it is the best. On equal scores the later one wins."""
        config = self.config
        previous = score if self.smoothed is None else self.smoothed
        self.smoothed = config.ema * previous + (1.0 - config.ema) * score
        best = self.best_score
        # Small gains that add up are a gain: patience measures from the last one that counted.
        if self.reference is None or self.smoothed > self.reference + config.min_delta:
            self.reference, self.stale = self.smoothed, 0
        else:
            self.stale += 1
        if best is not None and self.smoothed < best:
            return False
        self.best_score, self.best_step, self.best_env_steps = self.smoothed, step, env_steps
        return True

    def should_stop(self, step: int) -> bool:
        """Whether `patience` evaluations in a row brought no gain."""
        config = self.config
        return config.patience > 0 and step >= config.min_steps and self.stale >= config.patience
