"""Reanalyze: old data, fresh targets (Schrittwieser et al. 2020, appendix H)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.returns import policy_ratio
from mujax_pipe.agents.types import Array, Params, Transition


def reanalyze(
    algorithm: Algorithm, params: Params, key: Array, windows: Transition, step: Array
) -> tuple[Transition, Array]:
    """Gives a batch the values, and a part of it the search policies, of today's parameters.

    Every window bootstraps from today's network. The first `reanalyze_ratio` of the windows is also
    searched again in the states that are trained on (0..K), for a fresh policy and value; sampling
    is uniform, so the first are as good as any. The bootstrap tail (K+1..K+n) is not searched, for
    that would cost n more.

    Args:
      algorithm: says by `reanalyze_explores` whether it searches with noise.
      params: of today.
      key: consumed.
      windows: leading axes [N, K+n+1].
      step: [], learner steps taken.

    Returns:
      The windows with `value` replaced, and `policy_probs` in round(reanalyze_ratio * N) of them;
      and the ratio [N, K+n+1] of today's policy to the one that acted, for `value_targets`.
    """
    config = algorithm.config
    rows, states = round(config.reanalyze_ratio * config.batch_size), config.unroll_steps + 1
    today, value = algorithm.policy_and_value(params, windows.observation, windows.invalid_actions)
    policy_probs = windows.policy_probs
    if rows > 0:
        head = jax.tree.map(lambda x: x[:rows, :states], windows)
        flat = lambda x: x.reshape(rows * states, *x.shape[2:])
        searched = algorithm.search(
            params,
            key,
            flat(head.observation),
            flat(head.invalid_actions),
            step,
            explore=algorithm.reanalyze_explores,
        )
        probs = searched.policy_probs.reshape(rows, states, -1)
        value = value.at[:rows, :states].set(searched.value.reshape(rows, states))
        policy_probs = policy_probs.at[:rows, :states].set(probs)
        today = today.at[:rows, :states].set(probs)
    ratio = jnp.ones_like(value)
    if config.off_policy == "vtrace":
        ratio = policy_ratio(today, windows.action_prob, windows.action)
    return dataclasses.replace(windows, value=value, policy_probs=policy_probs), ratio
