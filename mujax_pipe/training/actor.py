"""The actor: searches in every environment, one step at a time, and records a chunk for replay."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import Params, SearchOutput, Transition
from mujax_pipe.errors import RunError
from mujax_pipe.training.envs import EnvironmentBatch, Step
from mujax_pipe.training.keys import Purpose, key_for


@dataclasses.dataclass(frozen=True, kw_only=True)
class Episode:
    """A finished episode."""

    episode_return: float
    length: int


class Actor:
    """Acts with exploration in B environments; a draw depends on the seed and the step alone."""

    def __init__(self, algorithm: Algorithm, environments: EnvironmentBatch, seed: int):
        self._environments = environments
        self._steps_taken = 0
        self._observation, self._invalid = environments.reset()
        self._returns = np.zeros(len(environments))
        self._lengths = np.zeros(len(environments), np.int64)

        def search(params, step, observation, invalid, counter):  # type: ignore[no-untyped-def]
            key = jax.random.fold_in(key_for(seed, Purpose.ACT), counter)
            return algorithm.search(params, key, observation, invalid, step, explore=True)

        self._search = jax.jit(search)
        self._value = jax.jit(algorithm.value)

    def act(
        self, params: Params, step: jax.Array, num_steps: int
    ) -> tuple[Transition, list[Episode]]:
        """Takes `num_steps` in each environment.

        Args:
          params: of the network.
          step: [], learner steps taken.
          num_steps: T.

        Returns:
          Transitions with leading axes [B, T], as NumPy arrays, and the episodes that ended.
        """
        rows, episodes = [], []
        for _ in range(num_steps):
            searched = self._search(
                params, step, self._observation, self._invalid, np.int32(self._steps_taken)
            )
            action = np.asarray(searched.action)
            answer = self._environments.step(action)
            rows.append(self._transition(params, searched, action, answer))
            episodes += self._count(answer)
            self._observation, self._invalid = answer.observation, answer.invalid_actions
            self._steps_taken += 1
        return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *rows), episodes

    def _transition(
        self, params: Params, searched: SearchOutput, action: np.ndarray, answer: Step
    ) -> Transition:
        _require_finite(answer)
        bootstrap_value = np.zeros(len(self._environments), np.float32)
        if answer.truncated.any():
            value = np.asarray(self._value(params, answer.final_observation))
            bootstrap_value = np.where(answer.truncated, value, bootstrap_value)
        return Transition(
            observation=self._observation,
            action=action,
            reward=answer.reward,
            discount=1.0 - answer.terminated.astype(np.float32),
            truncated=answer.truncated,
            bootstrap_value=bootstrap_value,
            invalid_actions=self._invalid,
            policy_probs=np.asarray(searched.policy_probs),
            value=np.asarray(searched.value),
        )

    def _count(self, answer: Step) -> list[Episode]:
        self._returns += answer.reward
        self._lengths += 1
        ended = np.flatnonzero(answer.terminated | answer.truncated)
        episodes = [
            Episode(episode_return=float(self._returns[i]), length=int(self._lengths[i]))
            for i in ended
        ]
        self._returns[ended], self._lengths[ended] = 0.0, 0
        return episodes


def _require_finite(answer: Step) -> None:
    for name, array in (
        ("reward", answer.reward),
        ("observation", answer.observation),
        ("observation", answer.final_observation),
    ):
        bad = ~np.isfinite(array)
        if bad.any():
            index = int(np.argwhere(bad)[0][0])
            raise RunError(
                f"environment {index} returned a {name} that is not finite: {array[index]}"
            )
