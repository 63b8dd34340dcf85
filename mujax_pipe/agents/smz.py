"""Stochastic MuZero.

Antonoglou et al. 2022, "Planning in stochastic environments with a learned model". A step is split
in two: the action leads to an afterstate, then chance picks one of C codes and leads to the next
state. In training an encoder names the code from what really happened; in the tree the chance prior
of the afterstate does.
"""

from __future__ import annotations

import functools
from typing import Any

import distrax
import jax
import jax.numpy as jnp
import mctx
import optax

from mujax_pipe.agents import muzero
from mujax_pipe.agents.networks import StochasticNetwork
from mujax_pipe.agents.types import Array, Metrics, Params, SearchOutput, Targets, record
from mujax_pipe.config import SMZConfig


@record
class Unrolled:
    """Logits along the unroll: states 0..K, afterstates and transitions 0..K-1."""

    embedding: Array  # [N, K+1, E], no logits
    policy: Array  # [N, K+1, A]
    value: Array  # [N, K+1, D]
    reward: Array  # [N, K, D]
    afterstate_value: Array  # [N, K, D]
    chance: Array  # [N, K, C]


class SMZ(muzero.Algorithm):
    """MuZero with chance nodes, visit-count policies and PUCT."""

    network = StochasticNetwork
    # Visits follow the prior: an action that it has given up too early comes back by noise alone.
    reanalyze_explores = True
    config: SMZConfig

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
        """Runs `mctx.stochastic_muzero_policy`.

        Exploring, the root prior has Dirichlet noise and the action is drawn from the visits at the
        temperature of the schedule; else the most visited action is taken. `policy_probs` are the
        visits at temperature 1 in either case, also for what is later taken as the acting policy.
        """
        config = self.config
        # The tree breaks ties by a draw: without exploration always by the same one.
        key = key if explore else jax.random.key(0)
        output = mctx.stochastic_muzero_policy(
            params,
            key,
            self.root(params, observation),
            self._decision,
            self._chance,
            config.num_simulations,
            invalid_actions,
            dirichlet_alpha=config.dirichlet_alpha,
            dirichlet_fraction=config.dirichlet_fraction if explore else 0.0,
            pb_c_init=config.pb_c_init,
            pb_c_base=config.pb_c_base,
            temperature=self.temperature(step),
            qtransform=functools.partial(
                mctx.qtransform_by_parent_and_siblings, epsilon=config.min_value_range
            ),
        )
        summary = output.search_tree.summary()
        probs = jnp.where(invalid_actions, 0.0, output.action_weights)
        greedy = jnp.argmax(most_visited_score(summary, invalid_actions), axis=-1)
        return SearchOutput(
            action=output.action if explore else greedy.astype(output.action.dtype),
            policy_probs=probs,
            value=summary.value,
        )

    def temperature(self, step: Array) -> Array:
        """Returns the acting temperature, falling in even parts of the run [M, appendix D]."""
        return self.scheduled(self.config.temperatures, step)

    def loss(self, params: Params, targets: Targets) -> tuple[Array, Metrics]:
        """Equation 9 of the paper: MuZero's losses, afterstate value, chance prior, commitment."""
        config = self.config
        network = self.bind(params)
        encoded = network.encode(targets.observation[:, :-1], targets.observation[:, 1:])
        code = jax.lax.stop_gradient(nearest_code(encoded))
        unrolled = self._unroll(network, targets, straight_through(encoded, code))
        weights = muzero.step_weights(config.unroll_steps)
        terms = {
            "policy": (unrolled.policy, targets.policy_probs, targets.policy_mask, weights),
            "value": (unrolled.value, targets.value_probs, targets.value_mask, weights),
            "reward": (unrolled.reward, targets.reward_probs, targets.reward_mask, weights[1:]),
            # The afterstate's value is that of the state and action before it: same return.
            "afterstate_value": (
                unrolled.afterstate_value,
                targets.value_probs[:, :-1],
                # Past a terminal state too: the search walks on through its afterstates.
                targets.reward_mask,
                weights[1:],
            ),
            "chance": (unrolled.chance, code, targets.transition_mask, weights[1:]),
        }
        losses = {name: muzero.weighted_cross_entropy(*term) for name, term in terms.items()}
        distance = jnp.sum(jnp.square(encoded - code), axis=-1)
        losses["commitment"] = jnp.mean(
            jnp.sum(weights[None, 1:] * targets.transition_mask * distance, axis=-1)
        )
        losses["consistency"] = muzero.consistency(
            unrolled.embedding[:, 1:],
            network.represent(targets.observation[:, 1:]),
            targets.policy_mask[:, 1:],
            weights[1:],
        )
        metrics = muzero.policy_metrics(unrolled.policy, targets) | chance_metrics(
            unrolled.chance, code, targets.policy_mask[:, :-1] * targets.transition_mask
        )
        return muzero.weighted_loss(config, losses, metrics)

    def _unroll(self, network: StochasticNetwork, targets: Targets, codes: Array) -> Unrolled:
        root = network.represent(targets.observation[:, 0])
        actions = self.one_hot_action(targets.action)

        def advance(embedding: Array, event: tuple[Array, Array]) -> tuple[Array, Any]:
            action, code = event
            # Halved, so that the gradient into early steps does not grow with K [M, appendix G].
            afterstate = network.act(optax.scale_gradient(embedding, 0.5), action)
            embedding = network.transit(afterstate, code)
            return embedding, (embedding, afterstate)

        # Embeddings alone go through the loop: the heads, far wider, take all steps at once.
        steps_first = lambda x: jnp.swapaxes(x, 0, 1)
        _, states = jax.lax.scan(advance, root, (steps_first(actions), steps_first(codes)))
        embeddings, afterstates = jax.tree.map(steps_first, states)
        embeddings = jnp.concatenate([root[:, None], embeddings], axis=1)
        policy_logits, value_logits = network.predict(embeddings)
        chance_logits, afterstate_logits = network.predict_afterstate(afterstates)
        return Unrolled(
            embedding=embeddings,
            policy=policy_logits,
            value=value_logits,
            reward=network.reward_after(afterstates, codes),
            afterstate_value=afterstate_logits,
            chance=chance_logits,
        )

    def _decision(
        self, params: Params, key: Array, action: Array, embedding: Array
    ) -> tuple[mctx.DecisionRecurrentFnOutput, Array]:
        del key
        network = self.bind(params)
        afterstate = network.act(embedding, self.one_hot_action(action))
        chance_logits, value_logits = network.predict_afterstate(afterstate)
        output = mctx.DecisionRecurrentFnOutput(
            chance_logits=chance_logits, afterstate_value=self.to_scalar(value_logits)
        )
        return output, afterstate

    def _chance(
        self, params: Params, key: Array, outcome: Array, afterstate: Array
    ) -> tuple[mctx.ChanceRecurrentFnOutput, Array]:
        del key
        network = self.bind(params)
        # One-hot, not an index: mctx also passes rows whose outcome is an action.
        code = jax.nn.one_hot(outcome, self.config.num_codes)
        embedding, reward_logits = network.dynamics(afterstate, code)
        policy_logits, value_logits = network.predict(embedding)
        reward = self.to_scalar(reward_logits)
        output = mctx.ChanceRecurrentFnOutput(
            action_logits=policy_logits,
            value=self.to_scalar(value_logits),
            reward=reward,
            discount=jnp.full_like(reward, self.config.discount),
        )
        return output, embedding


def most_visited_score(summary: Any, invalid_actions: Array) -> Array:
    """Ranks actions by visits, equally visited ones by value, [B, A]; illegal ones come last."""
    values = jnp.where(summary.visit_counts > 0, summary.qvalues, -jnp.inf)
    # A rank below 1 orders actions within equal visits and never across.
    below = jnp.sum(values[:, None, :] < values[:, :, None], axis=-1)
    score = summary.visit_counts + below / (values.shape[-1] + 1)
    return jnp.where(invalid_actions, -1.0, score)


def nearest_code(encoded: Array) -> Array:
    """Returns the code nearest to each encoding, one-hot: the codebook is the unit vectors."""
    return jax.nn.one_hot(jnp.argmax(encoded, axis=-1), encoded.shape[-1])


def straight_through(encoded: Array, code: Array) -> Array:
    """Has the value of `code` and the gradient of `encoded` (van den Oord et al. 2017)."""
    return code + (encoded - jax.lax.stop_gradient(encoded))


def chance_metrics(chance_logits: Array, code: Array, mask: Array) -> Metrics:
    """Says how many codes are in use, and how many the prior expects.

    Args:
      chance_logits: [N, K, C].
      code: [N, K, C] one-hot.
      mask: [N, K], 1 for real transitions.

    Returns:
      `code_perplexity`: exp entropy of the codes over the batch, 1 when one code does it all;
      `codes_used`: how many codes occur; `chance_perplexity`: exp of the prior's mean entropy.
    """
    total = jnp.maximum(jnp.sum(mask), 1.0)
    usage = jnp.sum(mask[..., None] * code, axis=(0, 1)) / total
    entropy = distrax.Categorical(logits=chance_logits).entropy()
    return {
        "code_perplexity": jnp.exp(-jnp.sum(jax.scipy.special.xlogy(usage, usage))),
        "codes_used": jnp.sum(usage > 0.0).astype(jnp.float32),
        "chance_perplexity": jnp.exp(jnp.sum(mask * entropy) / total),
    }
