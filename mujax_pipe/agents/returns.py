"""Targets of the value, reward and policy from windows of replayed steps.

Inside a window episodes may end. A terminated step earns its reward and nothing after; a truncated
one bootstraps from the value of the observation it led to; nothing of the next episode leaks in.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import rlax

from mujax_pipe.agents.types import Array, Targets, Transition
from mujax_pipe.agents.values import scalar_to_probs
from mujax_pipe.config import MuZeroConfig


def value_targets(
    window: Transition, ratio: Array, discount: float, n: int, td_lambda: float
) -> Array:
    """Returns n-step V-trace targets of one window (Espeholt et al. 2018, eq. 1, IMPALA).

    G[t] = V[t] + e[t], with e[t] = ratio[t] (d[t] + g[t] lambda e[t+1]) followed for n steps, and
    d[t] = r[t] + g[t] V[t+1] - V[t]. With all ratios 1 this is the n-step TD(lambda) return, and
    with lambda = 1 too that of Schrittwieser et al. 2020; where the policy of today would not take
    the action of back then it is the value of the state. g[t] is the discount, 0 where the episode
    ended; a truncated step adds discount * bootstrap_value to its reward.

    Args:
      window: one window, leading axis [K+n+1], with `value` to bootstrap from.
      ratio: [K+n+1], how likely today's policy is to take each action, over how likely the acting
        one was; at most 1.
      discount: per step.
      n: rewards summed before bootstrapping.
      td_lambda: 0 is one-step TD, 1 the n-step return.

    Returns:
      Targets of the first K+1 states, [K+1].
    """
    continues = discount * window.discount * (1.0 - window.truncated)
    reward = window.reward + discount * window.truncated * window.bootstrap_value
    delta = reward[:-1] + continues[:-1] * window.value[1:] - window.value[:-1]
    trace = continues[:-1] * td_lambda
    error = jnp.zeros_like(delta)
    for _ in range(n):
        error = ratio[:-1] * (delta + trace * jnp.append(error[1:], 0.0))
    num_states = window.reward.shape[0] - n
    return (window.value[:-1] + error)[:num_states]


def policy_ratio(today: Array, action_prob: Array, action: Array) -> Array:
    """Returns min(1, today(action) / action_prob), [...], of today's policy [..., A].

    Clipped at 1, as V-trace has it: an action that has become likelier is simply on policy.
    """
    taken = rlax.batched_index(today, action)
    return jnp.minimum(1.0, taken / jnp.maximum(action_prob, jnp.finfo(jnp.float32).tiny))


def episode_masks(discount: Array, truncated: Array) -> tuple[Array, Array]:
    """Says which states of a window belong to the episode it starts in.

    Args:
      discount: [T], 0 on a terminated step.
      truncated: [T].

    Returns:
      alive: [T] float, 1 while no earlier step of the window ended the episode.
      absorbed: [T] float, 1 after a terminated step of that episode; both are 0 past a truncation.
    """
    ended = jnp.where(truncated | (discount == 0.0), 1.0, 0.0)
    before = lambda x: jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)[:-1]])
    alive = jnp.where(before(ended) == 0.0, 1.0, 0.0)
    absorbed = jnp.where(before(alive * (discount == 0.0)) > 0.0, 1.0, 0.0)
    return alive, absorbed


def make_targets(windows: Transition, ratio: Array, config: MuZeroConfig) -> Targets:
    """Builds the targets of a batch of windows and policy ratios, leading axes [N, K+n+1].

    Past a terminal state the model learns zero value and reward (`after_terminal="absorbing"`) or
    nothing ("masked"); past a truncation it always learns nothing, for the truth is unknown there.
    """
    return jax.vmap(lambda window, ratio: _targets_of(window, ratio, config))(windows, ratio)


def _targets_of(window: Transition, ratio: Array, config: MuZeroConfig) -> Targets:
    k = config.unroll_steps
    returns = value_targets(
        window, ratio, config.discount, config.bootstrap_steps, config.td_lambda
    )
    alive, absorbed = episode_masks(window.discount, window.truncated)
    learned = alive + absorbed if config.after_terminal == "absorbing" else alive
    bins = (config.num_bins, config.bin_limit)
    return Targets(
        # Zeros past the end, not the next episode: a chance encoder sees that it ended, no more.
        observation=alive[: k + 1, None] * window.observation[: k + 1],
        action=window.action[:k],
        reward_probs=scalar_to_probs(alive[:k] * window.reward[:k], *bins),
        value_probs=scalar_to_probs(alive[: k + 1] * returns, *bins),
        policy_probs=window.policy_probs[: k + 1],
        reward_mask=learned[:k],
        value_mask=learned[: k + 1],
        policy_mask=alive[: k + 1],
        # Where a truncated step led is not in replay, and zeros would say that the episode ended.
        transition_mask=learned[:k] * (alive + absorbed)[1 : k + 1],
    )
