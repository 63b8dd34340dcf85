"""The actor: chooses actions by a search that explores."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rlax

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import Array, EnvironmentSpec, Params, SearchOutput
from mujax_pipe.errors import UserError
from mujax_pipe.training.devices import acting_device, placed
from mujax_pipe.training.keys import Purpose, key_for


class Actor:
    """Searches with exploration and draws actions; a draw depends on seed, stream and count alone.

    The environment loops of a run share one, each with a stream of its own: the search is compiled
    once. `update` comes before the first use.

    Args:
      algorithm: whose search it is.
      seed: of the exploration.
    """

    def __init__(self, algorithm: Algorithm, seed: int):
        def search(
            params: Params,
            step: Array,
            observation: Array,
            invalid_actions: Array,
            stream: Array,
            count: Array,
        ) -> tuple[SearchOutput, Array]:
            key = jax.random.fold_in(key_for(seed, Purpose.ACT), stream)
            search_key, _ = jax.random.split(jax.random.fold_in(key, count))
            output = algorithm.search(
                params, search_key, observation, invalid_actions, step, explore=True
            )
            keys = stretch_keys(key, count, algorithm.config.exploration_repeat)
            return explored(output, invalid_actions, algorithm.exploration(step), keys)

        self.spec = algorithm.spec
        self._search = jax.jit(search)
        self._value = jax.jit(algorithm.value)
        self._device = acting_device(algorithm.config.actor_device)
        self._count = 0

    def update(self, params: Params, step: Array) -> None:
        """Takes the parameters to act with, and the learner step [] that schedules go by."""
        self._params, self._step = placed((params, step), self._device)

    def search(
        self, observation: np.ndarray, invalid_actions: np.ndarray, stream: np.int32, count: int
    ) -> tuple[SearchOutput, Array]:
        """Plans from observations [B, O] under a mask [B, A]; `count` numbers the draws.

        Also returns how likely each action was, [B].
        """
        return self._search(
            self._params, self._step, observation, invalid_actions, stream, np.int32(count)
        )

    def value(self, observation: np.ndarray) -> np.ndarray:
        """Returns the network's value of observations, [B, O] -> [B]."""
        return np.asarray(self._value(self._params, observation))

    def act(self, observation: Any, invalid_actions: Any = None) -> Any:
        """Draws an action for one observation [O], or actions [B] for a batch [B, O].

        Args:
          observation: as the environment returns it.
          invalid_actions: [A] or [B, A], true = illegal; all legal if None.
        """
        batch, mask, single = as_batch(self.spec, observation, invalid_actions)
        action = np.asarray(self.search(batch, mask, np.int32(0), self._count)[0].action)
        self._count += 1
        return int(action[0]) if single else action


def stretch_keys(key: Array, count: Array, longest: int) -> Array:
    """Returns the keys of the stretches of 1, 2, 4 .. `longest` steps that a step lies in, [L].

    They follow from key and count alone: there is nothing to carry or to save.

    Args:
      key: of all steps.
      count: [], steps taken before.
      longest: a number that is no power of 2 counts as the next lower one.
    """
    shift = jnp.arange(longest.bit_length())
    begun = (count >> shift) << shift
    return jax.vmap(lambda count: jax.random.split(jax.random.fold_in(key, count))[1])(begun)


def explored(
    output: SearchOutput, invalid_actions: Array, share: Array, keys: Array
) -> tuple[SearchOutput, Array]:
    """Draws a share of the actions uniformly among the legal ones, and holds them for a stretch.

    Actions that undo each other lead nowhere; what is held gets far (Dabney et al. 2021,
    "Temporally-extended epsilon-greedy exploration"). Each length of a stretch is as likely; it is
    drawn anew when the longest is over.

    Args:
      output: of a search of B states.
      invalid_actions: [B, A], True = illegal.
      share: [], of actions that are drawn.
      keys: [L], of `stretch_keys`; consumed.

    Returns:
      The output with its actions, and how likely each of them was, [B], to one who does not know
      the steps before.
    """
    legal = 1.0 - invalid_actions
    uniform = legal / jnp.sum(legal, axis=-1, keepdims=True)
    length = jax.random.randint(jax.random.fold_in(keys[-1], 0), (len(legal),), 0, len(keys))

    def draw(key: Array) -> tuple[Array, Array]:
        whether_key, which_key = jax.random.split(key)
        drawn = jax.random.categorical(which_key, jnp.log(uniform))
        return jax.random.bernoulli(whether_key, share, drawn.shape), drawn

    whether, drawn = (rlax.batched_index(x.T, length) for x in jax.vmap(draw)(keys))
    action = jnp.where(whether, drawn, output.action).astype(output.action.dtype)
    probs = (1.0 - share) * output.policy_probs + share * uniform
    return dataclasses.replace(output, action=action), rlax.batched_index(probs, action)


def as_batch(
    spec: EnvironmentSpec, observation: Any, invalid_actions: Any
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Returns observations [B, O], their mask [B, A], and whether it was a single one.

    Raises:
      UserError: a shape that does not fit.
    """
    batch = np.asarray(observation, np.float32)
    single = batch.ndim == 1
    batch = np.atleast_2d(batch)
    if batch.shape[1:] != (spec.observation_dim,):
        raise UserError(
            f"observation has shape {np.shape(observation)}: allowed are "
            f"({spec.observation_dim},) and (B, {spec.observation_dim})"
        )
    mask = np.zeros((len(batch), spec.num_actions), bool)
    if invalid_actions is not None:
        given = np.asarray(invalid_actions, bool)
        if given.shape not in {mask.shape, mask.shape[1:]}:
            raise UserError(
                f"invalid_actions has shape {given.shape}: allowed are {mask.shape[1:]} and "
                f"{mask.shape}"
            )
        mask |= given
    if mask.all(axis=1).any():
        raise UserError("invalid_actions rules out every action: at least one must be legal")
    return batch, mask, single
