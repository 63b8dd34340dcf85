"""The learner: sample, reanalyze, one gradient step; many of them in one compiled loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.returns import make_targets
from mujax_pipe.agents.types import Array, Metrics, Params, TrainingState
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.errors import RunError
from mujax_pipe.training.devices import learning_device, placed
from mujax_pipe.training.keys import Purpose, key_for
from mujax_pipe.training.reanalyze import reanalyze
from mujax_pipe.training.replay import Replay, ReplayState


class Learner:
    """Turns replay into parameters. What step s does depends on s, the seed and replay alone."""

    def __init__(self, algorithm: Algorithm, replay: Replay, seed: int):
        self._algorithm = algorithm
        self._replay = replay
        self._seed = seed
        self._advance = jax.jit(self._loop, donate_argnums=0)

    def init(self, params: Params | None = None) -> TrainingState:
        """Returns the state before the first step, with fresh parameters unless given."""
        if params is None:
            params = jax.jit(self._algorithm.init)(key_for(self._seed, Purpose.INIT))
        params = jax.tree.map(jnp.array, params)
        state = TrainingState(
            params=params,
            average=jax.tree.map(jnp.copy, params),
            opt_state=self._optimizer(params).init(ravel(params)),
            step=jnp.int32(0),
        )
        return placed(state, learning_device(self._algorithm.config.learner_device))

    def advance(
        self, state: TrainingState, replay_state: ReplayState, num_steps: int
    ) -> tuple[TrainingState, dict[str, float]]:
        """Takes learner steps; `state` is consumed. Returns the new state and mean metrics.

        Raises:
          RunError: a loss or gradient was not finite; no update was applied from that step on.
        """
        state, sums, num_good, last = self._advance(state, replay_state, jnp.int32(num_steps))
        if int(num_good) < num_steps:
            # Parts of the loss come before their sum, and that before the gradient.
            order = sorted(last, key=lambda name: (name == "grad_norm", name == "loss", name))
            bad = next(name for name in order if not np.isfinite(last[name]))
            raise RunError(
                f"learner step {int(state.step) + 1}: {bad} is {float(last[bad])}; lower "
                "learning_rate or max_grad_norm, or raise warmup_steps"
            )
        return state, {name: float(value) / num_steps for name, value in sums.items()}

    def _loop(
        self, state: TrainingState, replay_state: ReplayState, num_steps: Array
    ) -> tuple[TrainingState, Metrics, Array, Metrics]:
        """Steps until `num_steps` are done or one is not finite.

        The count is no constant of the program, so splitting the steps differently runs the same
        code. In the loop all parameters are one vector: an update is then a handful of operations
        and not as many for each layer, a fifth less to compile.
        """
        optimizer, unravel = self._optimizer(state.params), ravel_pytree(state.params)[1]
        # Jitted, it is traced once: for the shapes of its metrics and for the loop.
        step = jax.jit(lambda state: self._step(state, replay_state, optimizer, unravel))

        def body(carry):  # type: ignore[no-untyped-def]
            state, sums, num_good, _, _ = carry
            new_state, metrics = step(state)
            ok = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["grad_norm"])
            keep = lambda new, old: jnp.where(ok, new, old)
            return (
                jax.tree.map(keep, new_state, state),
                jax.tree.map(lambda total, x: total + keep(x, 0.0), sums, metrics),
                num_good + ok,
                metrics,
                ok,
            )

        state = _mapped(ravel, state)
        _, shapes = jax.eval_shape(step, state)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        start = (state, zeros, jnp.int32(0), zeros, jnp.bool_(True))
        state, *rest, _ = jax.lax.while_loop(lambda c: c[4] & (c[2] < num_steps), body, start)
        return _mapped(unravel, state), *rest

    def _step(
        self,
        state: TrainingState,
        replay_state: ReplayState,
        optimizer: optax.GradientTransformation,
        unravel: Callable[[Array], Params],
    ) -> tuple[TrainingState, Metrics]:
        key = jax.random.fold_in(key_for(self._seed, Purpose.LEARN), state.step)
        sample_key, search_key = jax.random.split(key)
        params = unravel(state.params)
        windows = self._replay.sample(replay_state, sample_key)
        windows, ratio = reanalyze(self._algorithm, params, search_key, windows, state.step)
        targets = make_targets(windows, ratio, self._algorithm.config)
        grads, metrics = jax.grad(self._algorithm.loss, has_aux=True)(params, targets)
        gradient = ravel(grads)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        metrics["grad_norm"] = optax.tree.norm(gradient)
        new_params = optax.apply_updates(state.params, updates)
        new_state = TrainingState(
            params=new_params,
            average=optax.incremental_update(new_params, state.average, self._share_of(state.step)),
            opt_state=opt_state,
            step=state.step + 1,
        )
        return new_state, metrics

    def _share_of(self, step: Array) -> Array:
        """Returns the weight of new parameters in the average: early, that of a tenth of the run.

        Else the average would be made of the first, random parameters for long.
        """
        return jnp.maximum(1.0 - self._algorithm.config.averaging, 9.0 / (10.0 + step))

    def _optimizer(self, params: Params) -> optax.GradientTransformation:
        # Biases and layer norms are few and cannot overfit; decaying them only shrinks the output.
        matrix = jax.tree.map(lambda x: jnp.full(x.shape, float(x.ndim > 1)), params)
        return make_optimizer(self._algorithm.config, ravel(matrix))


def ravel(tree: Params) -> Array:
    """Returns the leaves of a tree as one vector."""
    return ravel_pytree(tree)[0]


def _mapped(change: Callable[[Any], Any], state: TrainingState) -> TrainingState:
    """Changes the form of the parameters of a state."""
    return dataclasses.replace(state, params=change(state.params), average=change(state.average))


def make_optimizer(config: MuZeroConfig, decays: Array) -> optax.GradientTransformation:
    """AdamW behind a global-norm clip, with linear warm-up and cosine decay.

    Args:
      config: of the algorithm.
      decays: which elements of the parameters decay by `weight_decay`, as 0 and 1.
    """
    total = config.num_learner_steps
    warmup = min(config.warmup_steps, total - 1)
    learning_rate = optax.warmup_cosine_decay_schedule(
        init_value=config.learning_rate / max(warmup, 1),
        peak_value=config.learning_rate,
        warmup_steps=warmup,
        decay_steps=total,
        end_value=config.learning_rate * config.final_learning_rate,
    )
    return optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.scale_by_adam(),
        optax.stateless(lambda updates, params: updates + config.weight_decay * decays * params),
        optax.scale_by_learning_rate(learning_rate),
    )
