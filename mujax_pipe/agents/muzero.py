"""What the MuZero family shares: the contract, the root, the weighted losses.

An algorithm is pure: parameters and data in, outputs out. The loop, replay, reanalyze, actor and
learner call it through `Algorithm` alone.
"""

from __future__ import annotations

import abc
import functools
import math
from typing import Any, ClassVar

import distrax
import jax
import jax.numpy as jnp
import mctx
import optax
from flax import nnx

from mujax_pipe.agents.networks import initialised
from mujax_pipe.agents.types import (
    Array,
    EnvironmentSpec,
    Metrics,
    Params,
    SearchOutput,
    Targets,
)
from mujax_pipe.agents.values import logits_to_scalar
from mujax_pipe.config import MuZeroConfig


class Algorithm(abc.ABC):
    """A planning algorithm: a network, a search and a loss."""

    network: ClassVar[type[nnx.Module]]
    # Whether reanalyze searches with the noise of acting.
    reanalyze_explores: ClassVar[bool] = False

    def __init__(self, config: MuZeroConfig, spec: EnvironmentSpec):
        self.config = config
        self.spec = spec

    def init(self, key: Array) -> Params:
        """Returns freshly initialised parameters: nested dicts of arrays."""
        return initialised(key, nnx.to_pure_dict(nnx.state(self._build())))

    def bind(self, params: Params) -> Any:
        """Returns the network with these parameters."""
        return nnx.merge(self._graph, params)

    @abc.abstractmethod
    def search(
        self,
        params: Params,
        key: Array,
        observation: Array,
        invalid_actions: Array,
        step: Array,
        *,
        explore: bool,
    ) -> SearchOutput:
        """Plans from a batch of observations.

        Args:
          params: of the network.
          key: consumed.
          observation: [B, O].
          invalid_actions: [B, A], True = illegal.
          step: [], learner steps taken, for schedules.
          explore: noise at the root, for acting; without it the result does not depend on `key`.
        """

    @abc.abstractmethod
    def loss(self, params: Params, targets: Targets) -> tuple[Array, Metrics]:
        """Returns the scalar loss and metrics of a batch."""

    def value(self, params: Params, observation: Array) -> Array:
        """Returns the network's value of observations, [..., O] -> [...]."""
        network = self.bind(params)
        _, value_logits = network.predict(network.represent(observation))
        return self.to_scalar(value_logits)

    def policy_and_value(
        self, params: Params, observation: Array, invalid_actions: Array
    ) -> tuple[Array, Array]:
        """Returns the network's policy over legal actions, [..., A], and value, [...]."""
        root = self.root(params, observation)
        logits = jnp.where(invalid_actions, -jnp.inf, root.prior_logits)
        return jax.nn.softmax(logits), root.value

    def root(self, params: Params, observation: Array) -> mctx.RootFnOutput:
        """Returns the root of a search over observations [B, O]."""
        network = self.bind(params)
        embedding = network.represent(observation)
        policy_logits, value_logits = network.predict(embedding)
        return mctx.RootFnOutput(
            prior_logits=policy_logits, value=self.to_scalar(value_logits), embedding=embedding
        )

    def exploration(self, step: Array) -> Array:
        """Returns the share of actions that is drawn uniformly while acting."""
        return self.scheduled(self.config.exploration, step)

    def scheduled(self, values: tuple[float, ...], step: Array) -> Array:
        """Returns the value of a schedule of even parts of the run [M, appendix D]."""
        part = step // math.ceil(self.config.num_learner_steps / len(values))
        return jnp.asarray(values, jnp.float32)[jnp.clip(part, 0, len(values) - 1)]

    def to_scalar(self, logits: Array) -> Array:
        """Reads value or reward logits, [..., D] -> [...]."""
        return logits_to_scalar(logits, self.config.bin_limit)

    def one_hot_action(self, action: Array) -> Array:
        """Returns [..., A]; zeros for a number that is no action (SMZ trees hold outcomes too)."""
        return jax.nn.one_hot(action, self.spec.num_actions)

    def _build(self) -> nnx.Module:
        # The key is asked for and not used: `initialised` draws.
        return self.network(self.config, self.spec, rngs=nnx.Rngs(0))  # type: ignore[call-arg]

    @functools.cached_property
    def _graph(self) -> Any:
        return nnx.graphdef(nnx.eval_shape(self._build))


def weighted_loss(config: MuZeroConfig, losses: Metrics, metrics: Metrics) -> tuple[Array, Metrics]:
    """Sums losses by the config's `<name>_weight`; returns the sum and all metrics."""
    total = sum(getattr(config, f"{name}_weight") * value for name, value in losses.items())
    loss = jnp.asarray(total)
    named = {f"{name}_loss": value for name, value in losses.items()}
    return loss, {"loss": loss, **named, **metrics}


def step_weights(num_unrolled: int) -> Array:
    """Weights of steps 0..K: the root counts as much as all unrolled steps together, [K+1] [M]."""
    unrolled = jnp.full(num_unrolled, 1.0 / num_unrolled)
    return jnp.concatenate([jnp.ones(1), unrolled])


def weighted_cross_entropy(logits: Array, probs: Array, mask: Array, weights: Array) -> Array:
    """Returns the cross entropy: summed over steps by weight, then the batch mean.

    Args:
      logits: [N, T, D].
      probs: [N, T, D].
      mask: [N, T], 0 where the target does not count.
      weights: [T].
    """
    cross_entropy = optax.losses.softmax_cross_entropy(logits, probs)
    return jnp.mean(jnp.sum(weights[None] * mask * cross_entropy, axis=-1))


def consistency(unrolled: Array, encoded: Array, mask: Array, weights: Array) -> Array:
    """Returns how far unrolled embeddings point away from those of the states that were reached.

    The temporal consistency of EfficientZero (Ye et al. 2021, eq. 3): a search sees only unrolled
    states, so its values are as good as these agree with represented ones. The latter are constants
    here, or both could agree on nothing.

    Args:
      unrolled: [N, K, E], by the dynamics.
      encoded: [N, K, E], by the representation.
      mask: [N, K], 0 where the state was not reached.
      weights: [K].

    Returns:
      1 - cosine similarity, summed over steps by weight, averaged over the batch.
    """
    similarity = optax.losses.cosine_similarity(
        unrolled, jax.lax.stop_gradient(encoded), epsilon=1e-6
    )
    return jnp.mean(jnp.sum(weights[None] * mask * (1.0 - similarity), axis=-1))


def policy_metrics(logits: Array, targets: Targets) -> Metrics:
    """Returns entropies of prior and search policy at the root, and their divergence; nats."""
    prior = distrax.Categorical(logits=logits[:, 0])
    search = distrax.Categorical(probs=targets.policy_probs[:, 0])
    return {
        "prior_entropy": jnp.mean(prior.entropy()),
        "search_entropy": jnp.mean(search.entropy()),
        "policy_divergence": jnp.mean(search.kl_divergence(prior)),
    }
