"""Reanalyze: old data, fresh targets (Schrittwieser et al. 2020, appendix H)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import Array, Params, Transition


def reanalyze(
    algorithm: Algorithm, params: Params, key: Array, windows: Transition, step: Array
) -> Transition:
    """Searches the first `reanalyze_ratio` of a batch again with the newest parameters.

    Sampling is uniform, so the first rows are as good as any. The states that are trained on
    (0..K) get a fresh search policy and value; the bootstrap tail (K+1..K+n) gets the network's
    value, for a search of each would cost n more.

    Args:
      algorithm: searches without noise.
      params: newest.
      key: consumed.
      windows: leading axes [N, K+n+1].
      step: [], learner steps taken.

    Returns:
      The windows, with `policy_probs` and `value` replaced in round(reanalyze_ratio * N) rows.
    """
    config = algorithm.config
    rows, states = round(config.reanalyze_ratio * config.batch_size), config.unroll_steps + 1
    if rows == 0:
        return windows
    head = jax.tree.map(lambda x: x[:rows, :states], windows)
    flat = lambda x: x.reshape(rows * states, *x.shape[2:])
    searched = algorithm.search(
        params, key, flat(head.observation), flat(head.invalid_actions), step, explore=False
    )
    tail = algorithm.value(params, windows.observation[:rows, states:])
    value = jnp.concatenate([searched.value.reshape(rows, states), tail], axis=1)
    policy_probs = searched.policy_probs.reshape(rows, states, -1)
    return dataclasses.replace(
        windows,
        policy_probs=windows.policy_probs.at[:rows, :states].set(policy_probs),
        value=windows.value.at[:rows].set(value),
    )
