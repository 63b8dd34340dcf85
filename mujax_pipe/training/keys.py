"""Random keys and episode seeds. Derived from counters, never carried: nothing random to save."""

from __future__ import annotations

import enum

import jax
import numpy as np


class Purpose(enum.IntEnum):
    """What a random key is for; each has its own stream."""

    INIT = 0
    ACT = 1
    LEARN = 2
    EVALUATE = 3


class Episodes(enum.IntEnum):
    """Families of episode seeds. The family is the seed's last two bits, so they never meet."""

    TRAINING = 0
    SELECTION = 1
    FINAL = 2


def key_for(seed: int, purpose: Purpose) -> jax.Array:
    """Returns the key of a purpose; `fold_in` a counter before each use."""
    return jax.random.fold_in(jax.random.key(seed), int(purpose))


def episode_seed(family: Episodes, *counters: int) -> int:
    """Returns the reset seed of one episode, a 32-bit number.

    Args:
      family: training, selection or final evaluation.
      counters: what tells the episode apart within the family, such as (cell seed, environment,
        episode).
    """
    (word,) = np.random.SeedSequence([int(family), *counters]).generate_state(1)
    return (int(word) & ~0b11) | int(family)
