"""Targets of the value, reward and policy from windows of replayed steps (SPEC A4).

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


def value_targets(window: Transition, discount: float, n: int, td_lambda: float) -> Array:
    """Returns n-step TD(lambda) returns of one window (Sutton & Barto 2018, eq. 12.18).

    G[t] = r[t] + g[t] ((1 - lambda) V[t+1] + lambda G[t+1]), followed for n steps and closed by V;
    with lambda = 1 the n-step return of Schrittwieser et al. 2020. g[t] is the discount, 0 where
    the episode ended; a truncated step adds discount * bootstrap_value to its reward.

    Args:
      window: one window, leading axis [K+n+1], with `value` to bootstrap from.
      discount: per step.
      n: rewards summed before bootstrapping.
      td_lambda: 0 is one-step TD, 1 the n-step return.

    Returns:
      Targets of the first K+1 states, [K+1].
    """
    continues = discount * window.discount * (1.0 - window.truncated)
    reward = window.reward + discount * window.truncated * window.bootstrap_value
    returns = rlax.n_step_bootstrapped_returns(
        r_t=reward[:-1], discount_t=continues[:-1], v_t=window.value[1:], n=n, lambda_t=td_lambda
    )
    num_states = window.reward.shape[0] - n
    return returns[:num_states]


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


def make_targets(windows: Transition, config: MuZeroConfig) -> Targets:
    """Builds the targets of a batch of windows, leading axes [N, K+n+1].

    Past a terminal state the model learns zero value and reward (`after_terminal="absorbing"`) or
    nothing ("masked"); past a truncation it always learns nothing, for the truth is unknown there.
    """
    return jax.vmap(lambda window: _targets_of(window, config))(windows)


def _targets_of(window: Transition, config: MuZeroConfig) -> Targets:
    k = config.unroll_steps
    returns = value_targets(window, config.discount, config.bootstrap_steps, config.td_lambda)
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
    )
