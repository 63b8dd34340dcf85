"""Environment loops: act in every environment step by step, and record a chunk for replay."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import Array, Params, SearchOutput, Transition
from mujax_pipe.errors import RunError
from mujax_pipe.training.actor import Actor
from mujax_pipe.training.envs import Step
from mujax_pipe.training.observers import EnvLoopObserver
from mujax_pipe.training.vector_envs import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Episode:
    """A finished episode."""

    episode_return: float
    length: int


class EnvironmentLoop:
    """Lets an actor act in a batch of environments; a draw depends on seed and step alone.

    Args:
      actor: who acts; loops may share one.
      environments: its own.
      index: which loop it is, among those that share the actor.
      first: number of its first environment among those of all loops.
      observed: keep what was seen, for observers.
    """

    def __init__(
        self,
        actor: Actor,
        environments: Batch,
        *,
        index: int = 0,
        first: int = 0,
        observed: bool = False,
    ):
        self._actor = actor
        self._environments = environments
        self._index = np.int32(index)
        self._first = first
        self._observed = observed
        self.seen: list[dict[str, Any]] = []
        self._steps_taken = 0
        self._observation, self._invalid = environments.reset()
        _require_finite(first, observation=self._observation)
        self._returns = np.zeros(len(environments))
        self._lengths = np.zeros(len(environments), np.int64)

    def act(self, num_steps: int) -> tuple[Transition, list[Episode]]:
        """Takes `num_steps` (T) in each environment.

        Returns:
          Transitions with leading axes [B, T], as NumPy arrays, and the episodes that ended.
        """
        rows, episodes = [], []
        self.seen = []
        for _ in range(num_steps):
            searched, action_prob = self._actor.search(
                self._observation, self._invalid, self._index, self._steps_taken
            )
            action = np.asarray(searched.action)
            answer = self._environments.step(action)
            rows.append(self._transition(searched, action, np.asarray(action_prob), answer))
            if self._observed:
                self.seen.append(
                    {
                        "observation": self._observation,
                        "action": action,
                        "policy_probs": rows[-1].policy_probs,
                        "answer": answer,
                    }
                )
            episodes += self._count(answer)
            self._observation, self._invalid = answer.observation, answer.invalid_actions
            self._steps_taken += 1
        return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *rows), episodes

    def snapshot(self) -> dict[str, Any]:
        """Returns all that `restore` needs, as arrays."""
        return {
            "environments": self._environments.snapshot(),
            "steps_taken": np.int64(self._steps_taken),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
        }

    def restore(self, saved: dict[str, Any]) -> bool:
        """Goes on from a snapshot; returns whether the open episodes could be brought back."""
        self._observation, self._invalid = self._environments.restore(saved["environments"])
        self._steps_taken = int(saved["steps_taken"])
        if self._environments.exact_resume:
            self._returns = np.array(saved["returns"])
            self._lengths = np.array(saved["lengths"])
        return self._environments.exact_resume

    def _transition(
        self, searched: SearchOutput, action: np.ndarray, action_prob: np.ndarray, answer: Step
    ) -> Transition:
        _require_finite(
            self._first,
            reward=answer.reward,
            observation=answer.observation,
            final_observation=answer.final_observation,
        )
        bootstrap_value = np.zeros(len(self._environments), np.float32)
        if answer.truncated.any():
            value = self._actor.value(answer.final_observation)
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
            action_prob=action_prob,
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


class EnvironmentLoops:
    """Loops side by side on threads; they meet after each chunk, so timing cannot matter.

    Rows of a chunk are in the order of the loops. Observers see it when all have met: each step of
    all environments at once.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        batches: Sequence[Batch],
        seed: int,
        observers: Sequence[EnvLoopObserver] = (),
    ):
        self.actor = Actor(algorithm, seed)
        self._observers = observers
        self._loops = [
            EnvironmentLoop(
                self.actor,
                batch,
                index=index,
                first=sum(len(other) for other in batches[:index]),
                observed=bool(observers),
            )
            for index, batch in enumerate(batches)
        ]
        self._pool = concurrent.futures.ThreadPoolExecutor(len(batches), "actor")

    def act(self, params: Params, step: Array, num_steps: int) -> tuple[Transition, list[Episode]]:
        """Takes `num_steps` in each environment; see `EnvironmentLoop.act`."""
        self.actor.update(params, step)
        results = list(self._pool.map(lambda loop: loop.act(num_steps), self._loops))
        for time in range(num_steps if self._observers else 0):
            seen = _joined([loop.seen[time] for loop in self._loops])
            for observer in self._observers:
                observer.observe(**seen)
        chunks = [chunk for chunk, _ in results]
        chunk = jax.tree.map(lambda *rows: np.concatenate(rows), *chunks)
        return chunk, [episode for _, episodes in results for episode in episodes]

    def snapshot(self) -> dict[str, Any]:
        """Returns the snapshots of all loops."""
        return {str(i): loop.snapshot() for i, loop in enumerate(self._loops)}

    def restore(self, saved: dict[str, Any]) -> bool:
        """Goes on from a snapshot; returns whether every open episode could be brought back."""
        exact = [loop.restore(saved[str(i)]) for i, loop in enumerate(self._loops)]
        return all(exact)

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()


def _joined(seen: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What several loops saw in one step, as if one had."""
    answers = [one["answer"] for one in seen]
    arrays = {
        field.name: np.concatenate([getattr(answer, field.name) for answer in answers])
        for field in dataclasses.fields(Step)
        if field.name != "final_info"
    }
    answer = Step(final_info=[info for a in answers for info in a.final_info], **arrays)
    names = ("observation", "action", "policy_probs")
    return {name: np.concatenate([one[name] for one in seen]) for name in names} | {
        "answer": answer
    }


def _require_finite(first: int, **arrays: np.ndarray) -> None:
    """Checks arrays [B, ...] by name, of environments numbered from `first`."""
    for name, array in arrays.items():
        bad = ~np.isfinite(array)
        if bad.any():
            index = int(np.argwhere(bad)[0][0])
            raise RunError(
                f"environment {first + index} returned a {name} that is not finite: {array[index]}"
            )
