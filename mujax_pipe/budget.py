"""How long a cell may take: what a cluster is asked for. No JAX here.

A job that its limit stops has saved itself and is sent again, so this need not be exact.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

from mujax_pipe.config import MuZeroConfig

# Weights applied a second by one slow core beside another cell, and what a part of the network
# costs besides, in weights: copies, activations and the tree weigh more than small layers do.
_RATE = 1.2e10
_BESIDES = 16_000
_MARGIN = 5.0
_START = 60.0  # seconds to import and compile


def train_minutes(config: MuZeroConfig) -> int:
    """Returns minutes that training a cell should not exceed on a core of today."""
    states = config.unroll_steps + 1
    trained = config.batch_size * states * 3  # a gradient costs about two evaluations
    searched = config.batch_size * config.reanalyze_ratio * states * config.num_simulations
    evaluations = config.num_learner_steps * (trained + searched)
    seconds = _START + evaluations * _weights(config) / _RATE
    return math.ceil(_MARGIN * seconds / 60.0)


def _weights(config: MuZeroConfig) -> int:
    """Counts the weights of the network, about, and for each part what it costs besides."""
    total = 0
    for field in dataclasses.fields(config):
        if field.name.endswith("_layer_sizes"):
            widths = (config.embedding_dim, *getattr(config, field.name), config.embedding_dim)
            total += _BESIDES + sum(a * b for a, b in itertools.pairwise(widths))
    return total
