"""Gumbel MuZero (Danihelka et al. 2022, "Policy improvement by planning with Gumbel")."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mctx
import optax

from mujax_pipe.agents import muzero
from mujax_pipe.agents.networks import MuZeroNetwork
from mujax_pipe.agents.types import Array, Metrics, Params, SearchOutput, Targets, record
from mujax_pipe.config import GMZConfig


@record
class Unrolled:
    """What the model says along its unroll: states 0..K, transitions 0..K-1."""

    embedding: Array  # [N, K+1, E]
    policy: Array  # [N, K+1, A] logits
    value: Array  # [N, K+1, D] logits
    reward: Array  # [N, K, D] logits


class GMZ(muzero.Algorithm):
    """MuZero with sequential halving at the root and policy targets from completed Q values."""

    network = MuZeroNetwork
    config: GMZConfig

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
        """Runs `mctx.gumbel_muzero_policy`; the Gumbel noise is the exploration."""
        del step
        config = self.config
        output = mctx.gumbel_muzero_policy(
            params,
            key,
            self.root(params, observation),
            self._recurrent,
            config.num_simulations,
            invalid_actions,
            qtransform=functools.partial(
                mctx.qtransform_completed_by_mix_value,
                value_scale=config.value_scale,
                maxvisit_init=config.maxvisit_init,
                epsilon=config.min_value_range,
            ),
            max_num_considered_actions=config.max_num_considered_actions,
            gumbel_scale=1.0 if explore else 0.0,
        )
        return SearchOutput(
            action=output.action,
            policy_probs=output.action_weights,
            value=improved_value(output),
        )

    def loss(self, params: Params, targets: Targets) -> tuple[Array, Metrics]:
        """Cross entropies of policy, value and reward along the unroll, and its consistency."""
        config = self.config
        network = self.bind(params)
        unrolled = self._unroll(network, targets)
        weights = muzero.step_weights(config.unroll_steps)
        terms = {
            "policy": (unrolled.policy, targets.policy_probs, targets.policy_mask, weights),
            "value": (unrolled.value, targets.value_probs, targets.value_mask, weights),
            "reward": (unrolled.reward, targets.reward_probs, targets.reward_mask, weights[1:]),
        }
        losses = {name: muzero.weighted_cross_entropy(*term) for name, term in terms.items()}
        losses["consistency"] = muzero.consistency(
            unrolled.embedding[:, 1:],
            network.represent(targets.observation[:, 1:]),
            targets.policy_mask[:, 1:],
            weights[1:],
        )
        return muzero.weighted_loss(config, losses, muzero.policy_metrics(unrolled.policy, targets))

    def _unroll(self, network: MuZeroNetwork, targets: Targets) -> Unrolled:
        root = network.represent(targets.observation[:, 0])
        actions = self.one_hot_action(targets.action)

        def advance(embedding: Array, action: Array) -> tuple[Array, Array]:
            # Halved, so that the gradient into early steps does not grow with K [M, appendix G].
            embedding = network.transit(optax.scale_gradient(embedding, 0.5), action)
            return embedding, embedding

        # Embeddings alone go through the loop: the heads, far wider, take all steps at once.
        _, states = jax.lax.scan(advance, root, jnp.swapaxes(actions, 0, 1))
        embeddings = jnp.concatenate([root[:, None], jnp.swapaxes(states, 0, 1)], axis=1)
        before = optax.scale_gradient(embeddings[:, :-1], 0.5)
        policy_logits, value_logits = network.predict(embeddings)
        return Unrolled(
            embedding=embeddings,
            policy=policy_logits,
            value=value_logits,
            reward=network.reward_after(before, actions),
        )

    def _recurrent(
        self, params: Params, key: Array, action: Array, embedding: Array
    ) -> tuple[mctx.RecurrentFnOutput, Array]:
        del key  # The model is deterministic.
        network = self.bind(params)
        embedding, reward_logits = network.dynamics(embedding, self.one_hot_action(action))
        policy_logits, value_logits = network.predict(embedding)
        reward = self.to_scalar(reward_logits)
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.full_like(reward, self.config.discount),
            prior_logits=policy_logits,
            value=self.to_scalar(value_logits),
        )
        return output, embedding


def improved_value(output: mctx.PolicyOutput) -> Array:
    """Returns the value of the improved policy at the root, [B]: sum over a of pi'(a) q(a).

    Not the mean over simulations: sequential halving visits the actions that it considers equally
    often, the worst as often as the best, so that mean is the value of acting at random once, and
    to learn it biases every value down. Actions without a visit count with the network's value.
    """
    tree, summary = output.search_tree, output.search_tree.summary()
    raw_value = tree.raw_values[:, tree.ROOT_INDEX, None]
    completed = jnp.where(summary.visit_counts > 0, summary.qvalues, raw_value)
    return jnp.sum(output.action_weights * completed, axis=-1)
