"""What is measured while acting. Observers look on: they change neither an action nor a draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.special import entr

from mujax_pipe.errors import UserError
from mujax_pipe.training.envs import Step


class EnvLoopObserver(Protocol):
    """Sees every step of B environments side by side."""

    def observe(
        self,
        *,
        observation: np.ndarray,
        action: np.ndarray,
        policy_probs: np.ndarray,
        answer: Step,
    ) -> None:
        """Takes in one step.

        Args:
          observation: [B, O] that was acted on.
          action: [B] taken, counted from 0.
          policy_probs: [B, A] of the search.
          answer: of the environments.
        """

    def metrics(self) -> dict[str, float]:
        """Returns what was seen since the last call, and starts anew; the loop adds `actor/`."""


class EpisodeObserver:
    """Mean, least and largest return and length of the episodes that ended; nothing if none did.

    An episode counts where it ends, with all of its steps.
    """

    def __init__(self) -> None:
        self._running: np.ndarray | None = None  # [2, B]: return and length so far
        self._ended: list[np.ndarray] = []  # [2] each

    def observe(
        self,
        *,
        observation: np.ndarray,
        action: np.ndarray,
        policy_probs: np.ndarray,
        answer: Step,
    ) -> None:
        if self._running is None:
            self._running = np.zeros((2, len(answer.reward)))
        self._running += np.stack([answer.reward, np.ones(len(answer.reward))])
        ended = answer.terminated | answer.truncated
        self._ended.extend(self._running[:, ended].T)
        self._running[:, ended] = 0.0

    def metrics(self) -> dict[str, float]:
        ended, self._ended = self._ended, []
        if not ended:
            return {}
        metrics = {}
        for name, values in zip(
            ("episode_return", "episode_length"), np.stack(ended, axis=1), strict=True
        ):
            metrics[name] = float(values.mean())
            metrics[f"{name}_min"] = float(values.min())
            metrics[f"{name}_max"] = float(values.max())
        return metrics


class ActionFractionObserver:
    """Share of each action among those taken: `action_fraction/0`, `action_fraction/1`, ..."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)

    def observe(
        self,
        *,
        observation: np.ndarray,
        action: np.ndarray,
        policy_probs: np.ndarray,
        answer: Step,
    ) -> None:
        counts = np.bincount(action, minlength=policy_probs.shape[-1])
        self._counts = counts + self._counts if self._counts.size else counts

    def metrics(self) -> dict[str, float]:
        counts, self._counts = self._counts, np.zeros(0, np.int64)
        total = counts.sum()
        return {f"action_fraction/{i}": float(count / total) for i, count in enumerate(counts)}


class PolicyEntropyObserver:
    """Mean entropy of the search's policy, in nats: 0 for a sure one, log A for a uniform one."""

    def __init__(self) -> None:
        self._total, self._count = 0.0, 0

    def observe(
        self,
        *,
        observation: np.ndarray,
        action: np.ndarray,
        policy_probs: np.ndarray,
        answer: Step,
    ) -> None:
        self._total += float(entr(policy_probs.astype(np.float64)).sum())
        self._count += len(policy_probs)

    def metrics(self) -> dict[str, float]:
        total, count = self._total, self._count
        self._total, self._count = 0.0, 0
        return {"policy_entropy": total / count} if count else {}


class InfoKeysObserver:
    """Mean of numbers in the last info of the episodes that ended, as `info/KEY`.

    An info without the key does not count; a key that no info held is left out.

    Args:
      keys: of the info.
    """

    def __init__(self, keys: Sequence[str]):
        self._keys = (keys,) if isinstance(keys, str) else tuple(keys)
        self._seen: dict[str, list[float]] = {}

    def observe(
        self,
        *,
        observation: np.ndarray,
        action: np.ndarray,
        policy_probs: np.ndarray,
        answer: Step,
    ) -> None:
        """Takes in one step.

        Raises:
          UserError: the value of a key is not a number.
        """
        for info in filter(None, answer.final_info):
            for key in self._keys:
                if key in info:
                    self._seen.setdefault(key, []).append(_number(key, info[key]))

    def metrics(self) -> dict[str, float]:
        seen, self._seen = self._seen, {}
        return {f"info/{key}": float(np.mean(seen[key])) for key in self._keys if key in seen}


def _number(key: str, value: object) -> float:
    try:
        return float(np.asarray(value).item())
    except (TypeError, ValueError):
        raise UserError(
            f"info key {key!r} holds {value!r}: allowed is a number; leave the key out"
        ) from None
