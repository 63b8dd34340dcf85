"""The networks of MuZero, as flax modules over batches.

Observations are squashed by symlog, not normalised: nothing to track, nothing to go stale.
Embeddings are layer-normalised, so that a long unroll stays where the heads were trained.
Output layers start at zero: the first value and reward are 0, the first policy uniform.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rlax
from flax import nnx

from mujax_pipe.agents.types import Array, EnvironmentSpec, Params
from mujax_pipe.config import MuZeroConfig, SMZConfig


class MLP(nnx.Module):
    """Hidden layers of linear, layer norm and SiLU; a linear output. [..., I] -> [..., out].

    A kernel is made of the standard deviation of its elements; `initialised` draws them.
    """

    def __init__(
        self, sizes: tuple[int, ...], num_in: int, num_out: int, *, zero: bool, rngs: nnx.Rngs
    ):
        widths = (num_in, *sizes)
        self.hidden = nnx.List(
            nnx.Linear(a, b, kernel_init=_deviation, rngs=rngs)
            for a, b in itertools.pairwise(widths)
        )
        self.norms = nnx.List(nnx.LayerNorm(size, rngs=rngs) for size in sizes)
        init = nnx.initializers.zeros_init() if zero else _deviation
        self.out = nnx.Linear(widths[-1], num_out, kernel_init=init, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        # In two dimensions: of more, XLA picks layouts that cost copies.
        leading, x = x.shape[:-1], x.reshape(-1, x.shape[-1])
        for linear, norm in zip(self.hidden, self.norms, strict=True):
            x = jax.nn.silu(norm(linear(x)))
        return self.out(x).reshape(*leading, -1)


def _deviation(key: Array, shape: tuple[int, int], dtype: Any) -> Array:
    """Returns a kernel of what keeps the variance of its input (LeCun et al. 1998)."""
    del key
    return jnp.full(shape, shape[0] ** -0.5, dtype)


def initialised(key: Array, params: Params) -> Params:
    """Draws each kernel from a normal, cut off at two deviations; other parameters stay.

    One draw serves all kernels: to compile one for each takes longer than all else before the first
    step but the learner.

    Args:
      key: consumed.
      params: kernels made of the deviation of their elements.
    """
    leaves, structure = jax.tree.flatten(params)
    kernels = [leaf.ndim == 2 for leaf in leaves]
    sizes = [leaf.size for leaf, kernel in zip(leaves, kernels, strict=True) if kernel]
    # Cut off, the deviation of a standard normal is this.
    draw = jax.random.truncated_normal(key, -2.0, 2.0, (sum(sizes),)) / 0.87962566103423978
    draws = iter(jnp.split(draw, np.cumsum(sizes)[:-1]))
    drawn = [
        leaf * next(draws).reshape(leaf.shape) if kernel else leaf
        for leaf, kernel in zip(leaves, kernels, strict=True)
    ]
    return jax.tree.unflatten(structure, drawn)


class Representation(nnx.Module):
    """Observation to embedding, [..., O] -> [..., E]."""

    def __init__(self, config: MuZeroConfig, spec: EnvironmentSpec, *, rngs: nnx.Rngs):
        self.trunk = MLP(
            config.representation_layer_sizes,
            spec.observation_dim,
            config.embedding_dim,
            zero=False,
            rngs=rngs,
        )
        self.norm = nnx.LayerNorm(config.embedding_dim, rngs=rngs)

    def __call__(self, observation: Array) -> Array:
        return self.norm(self.trunk(rlax.signed_logp1(observation)))


def beside(embedding: Array, event: Array) -> Array:
    """Joins an embedding [..., E] and a one-hot event [..., A] into one input, [..., E+A].

    The one 1 of the event is as long as the embedding, whose elements are about 1. As it is, what
    was done would be a small fraction of where: a hidden layer then adds the two up and hardly
    learns what an action does in one state and not in another.
    """
    return jnp.concatenate([embedding, event * embedding.shape[-1] ** 0.5], axis=-1)


class Transit(nnx.Module):
    """Embedding and a one-hot event (action or chance outcome) to the next embedding."""

    def __init__(self, config: MuZeroConfig, num_events: int, *, rngs: nnx.Rngs):
        width = config.embedding_dim
        self.trunk = MLP(
            config.dynamics_layer_sizes, width + num_events, width, zero=False, rngs=rngs
        )
        self.norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, embedding: Array, event: Array) -> Array:
        return self.norm(embedding + self.trunk(beside(embedding, event)))


class Prediction(nnx.Module):
    """Embedding to policy logits [..., A] and value logits [..., D]."""

    def __init__(self, config: MuZeroConfig, spec: EnvironmentSpec, *, rngs: nnx.Rngs):
        width, self.unimix = config.embedding_dim, config.unimix
        self.policy = MLP(config.policy_layer_sizes, width, spec.num_actions, zero=True, rngs=rngs)
        self.value = MLP(config.value_layer_sizes, width, config.num_bins, zero=True, rngs=rngs)

    def __call__(self, embedding: Array) -> tuple[Array, Array]:
        return mix_uniform(self.policy(embedding), self.unimix), self.value(embedding)


def mix_uniform(logits: Array, share: float) -> Array:
    """Returns logits of (1 - share) softmax(logits) + share / A: no action is ruled out [D]."""
    if share == 0.0:
        return logits
    return jnp.log((1.0 - share) * jax.nn.softmax(logits) + share / logits.shape[-1])


class MuZeroNetwork(nnx.Module):
    """Representation, dynamics and prediction of deterministic MuZero."""

    def __init__(self, config: MuZeroConfig, spec: EnvironmentSpec, *, rngs: nnx.Rngs):
        self.represent = Representation(config, spec, rngs=rngs)
        self.transit = Transit(config, spec.num_actions, rngs=rngs)
        self.reward = MLP(
            config.reward_layer_sizes,
            config.embedding_dim + spec.num_actions,
            config.num_bins,
            zero=True,
            rngs=rngs,
        )
        self.predict = Prediction(config, spec, rngs=rngs)

    def dynamics(self, embedding: Array, action: Array) -> tuple[Array, Array]:
        """Returns the next embedding [..., E] and reward logits [..., D] after a one-hot action."""
        return self.transit(embedding, action), self.reward_after(embedding, action)

    def reward_after(self, embedding: Array, action: Array) -> Array:
        """Returns the reward logits [..., D] of a one-hot action."""
        return self.reward(beside(embedding, action))


class StochasticNetwork(nnx.Module):
    """Networks of Stochastic MuZero: a step is an action, an afterstate and a chance code."""

    def __init__(self, config: SMZConfig, spec: EnvironmentSpec, *, rngs: nnx.Rngs):
        width, num_codes = config.embedding_dim, config.num_codes
        heads: dict[str, Any] = {"zero": True, "rngs": rngs}
        self.represent = Representation(config, spec, rngs=rngs)
        self.act = Transit(config, spec.num_actions, rngs=rngs)
        self.transit = Transit(config, num_codes, rngs=rngs)
        self.reward = MLP(config.reward_layer_sizes, width + num_codes, config.num_bins, **heads)
        self.predict = Prediction(config, spec, rngs=rngs)
        self.chance = MLP(config.chance_layer_sizes, width, num_codes, **heads)
        self.afterstate_value = MLP(config.value_layer_sizes, width, config.num_bins, **heads)
        self.encoder = MLP(
            config.encoder_layer_sizes, 2 * spec.observation_dim, num_codes, zero=False, rngs=rngs
        )

    def dynamics(self, afterstate: Array, code: Array) -> tuple[Array, Array]:
        """Returns the next embedding [..., E] and reward logits [..., D] after a one-hot code."""
        return self.transit(afterstate, code), self.reward_after(afterstate, code)

    def reward_after(self, afterstate: Array, code: Array) -> Array:
        """Returns the reward logits [..., D] of a one-hot code."""
        return self.reward(beside(afterstate, code))

    def predict_afterstate(self, afterstate: Array) -> tuple[Array, Array]:
        """Returns chance logits [..., C] and value logits [..., D]."""
        return self.chance(afterstate), self.afterstate_value(afterstate)

    def encode(self, observation: Array, next_observation: Array) -> Array:
        """Returns the encoding of what happened between two observations, [..., C], a softmax.

        The paper encodes the history up to the next observation, unbounded; two observations hold
        what a Markov state needs, and a softmax keeps every encoding within reach of its code.
        """
        pair = jnp.concatenate([observation, next_observation], axis=-1)
        return jax.nn.softmax(self.encoder(rlax.signed_logp1(pair)))
