"""Records that flow through the trainer. Built by keyword: like-shaped fields swap unnoticed.

Shapes: B environments, T steps, N batch, K unroll, n bootstrap, O observation, A actions, D bins.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax

Array = Any  # A JAX or NumPy array: one record serves both sides of the device boundary.
Params = Any  # A pytree of arrays.
Metrics = dict[str, Array]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass that JAX maps over."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, kw_only=True)(cls))


class EnvironmentSpec(NamedTuple):
    """What an algorithm must know of an environment."""

    observation_dim: int
    num_actions: int


@record
class Transition:
    """One environment step, leading axes [B, T]; `reward[t]` follows `action[t]`.

    After an episode's end the next row holds the first observation of the next episode, so the
    observation that a truncated step led to is not stored: its value is `bootstrap_value`.
    """

    observation: Array  # [..., O] float32
    action: Array  # [...] int32
    reward: Array  # [...] float32
    discount: Array  # [...] float32: 0 on termination, else 1; the config's discount comes on top
    truncated: Array  # [...] bool
    bootstrap_value: Array  # [...] float32: V(final observation) where truncated, else 0
    invalid_actions: Array  # [..., A] bool: True = illegal in `observation`
    policy_probs: Array  # [..., A] float32: the search policy at `observation`
    action_prob: Array  # [...] float32: how likely it was that `action` would be taken
    value: Array  # [...] float32: the search value of `observation`


@record
class Targets:
    """What the model is trained on: step 0 is the sampled state, steps 1..K are unrolled."""

    observation: Array  # [N, K+1, O]; 0 past the end of the episode
    action: Array  # [N, K]
    reward_probs: Array  # [N, K, D]
    value_probs: Array  # [N, K+1, D]
    policy_probs: Array  # [N, K+1, A]
    reward_mask: Array  # [N, K] float32: 1 where the target counts
    value_mask: Array  # [N, K+1]
    policy_mask: Array  # [N, K+1]
    transition_mask: Array  # [N, K]: 1 where it counts and where it led is known


@record
class SearchOutput:
    """What a search says about a batch of states."""

    action: Array  # [B] int32
    policy_probs: Array  # [B, A]: the improved policy; exactly 0 on illegal actions
    value: Array  # [B]: the value of the root after search


@record
class TrainingState:
    """Everything a learner step changes."""

    params: Params
    average: Params  # of params over the last steps: what acts and is scored
    opt_state: Any
    step: Array  # [] int32
