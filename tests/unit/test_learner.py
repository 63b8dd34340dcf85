import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mujax_pipe.errors import RunError
from mujax_pipe.training.learner import Learner, make_optimizer, ravel
from mujax_pipe.training.replay import Replay
from tests.fakes import SPEC, Linear, numbered, tiny_config

CONSTANT_RATE = {"warmup_steps": 0, "final_learning_rate": 1.0, "weight_decay": 0.0}


def make_learner(cls=Linear, seed=0, **settings):
    config = tiny_config(**settings)
    replay = Replay(config, SPEC)
    state = replay.add(replay.init(), numbered(config.num_envs, 20))
    return Learner(cls(config, SPEC), replay, seed), state


@pytest.fixture(scope="module")
def learning():
    return make_learner()


def assert_same_bits(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_splitting_the_steps_changes_no_bit(learning):
    learner, replay = learning
    whole, _ = learner.advance(learner.init(), replay, 3)
    split, _ = learner.advance(learner.init(), replay, 1)
    split, _ = learner.advance(split, replay, 2)
    assert int(whole.step) == 3
    assert_same_bits(whole, split)


def test_every_step_draws_another_batch(learning):
    """A step that reused the first key would find the first loss again with a rate of 0."""
    learner, replay = make_learner(learning_rate=0.0)
    state, losses = learner.init(), set()
    for _ in range(5):
        state, metrics = learner.advance(state, replay, 1)
        losses.add(metrics["loss"])
    assert len(losses) == 5


def test_the_seed_decides_parameters_and_batches(learning):
    learner, replay = learning
    again, _ = make_learner()
    other, _ = make_learner(seed=1)
    first = learner.init()
    assert_same_bits(first, again.init())
    assert (first.params["w"] != other.init().params["w"]).all()
    same, _ = learner.advance(learner.init(), replay, 1)
    # The same parameters under another seed meet another batch.
    different, _ = other.advance(learner.init(), replay, 1)
    assert (same.params["w"] != different.params["w"]).any()


def test_metrics_are_means_over_the_steps(learning):
    learner, replay = learning
    state, single = learner.init(), []
    for _ in range(3):
        state, metrics = learner.advance(state, replay, 1)
        single.append(metrics)
    _, mean = learner.advance(learner.init(), replay, 3)
    assert mean.keys() == single[0].keys() == {"loss", "prior_entropy", "grad_norm"}
    for name, value in mean.items():
        assert value == pytest.approx(np.mean([m[name] for m in single]), rel=1e-5)


def test_learning_lowers_the_loss():
    learner, replay = make_learner(learning_rate=0.05, num_learner_steps=200)
    state, first = learner.advance(learner.init(), replay, 5)
    state, _ = learner.advance(state, replay, 150)
    _, last = learner.advance(state, replay, 5)
    assert last["loss"] < 0.5 * first["loss"]


class Breaks(Linear):
    """The gradient is 1 everywhere, so every step subtracts the rate; the fourth loss is NaN."""

    start = 10.0

    def init(self, key):
        return {"w": jnp.full(2, self.start)}

    def broken(self, w):
        return jnp.where(w < self.start - 2.5 * self.config.learning_rate, jnp.nan, 1.0)

    def loss(self, params, targets):
        loss = params["w"].sum() * self.broken(params["w"][0])
        return loss, {"loss": loss}


class BreaksGradient(Breaks):
    """The fourth loss is finite and its gradient is not."""

    def loss(self, params, targets):
        w = params["w"][0]
        zero = jnp.where(jnp.isnan(self.broken(w)), 0.0, 1.0)
        # sqrt has an infinite slope at 0.
        loss = params["w"].sum() + jnp.sqrt(zero * w * w)
        return loss, {"loss": loss}


class BreaksPart(Breaks):
    """A part of the fourth loss is infinite, and so is their sum."""

    def loss(self, params, targets):
        part = 1.0 / jnp.where(jnp.isnan(self.broken(params["w"][0])), 0.0, 1.0)
        loss = params["w"].sum() + part
        return loss, {"loss": loss, "value_loss": part, "a_metric": jnp.zeros(())}


@pytest.mark.parametrize(
    ("cls", "found"),
    [
        (Breaks, "loss is nan"),
        (BreaksGradient, "grad_norm is nan"),
        (BreaksPart, "value_loss is inf"),
    ],
)
@pytest.mark.parametrize("split", [[10], [3, 7], [1, 1, 1, 1]])
def test_the_step_and_the_first_quantity_that_is_not_finite_are_named(cls, found, split):
    learner, replay = make_learner(cls, learning_rate=0.01, **CONSTANT_RATE)
    state = learner.init()
    for num_steps in split[:-1]:
        state, _ = learner.advance(state, replay, num_steps)
    with pytest.raises(RunError, match=f"^learner step 4: {found}; lower learning_rate"):
        learner.advance(state, replay, split[-1])


@pytest.mark.parametrize("cls", [Breaks, BreaksGradient])
def test_the_last_good_state_is_kept(cls):
    learner, replay = make_learner(cls, learning_rate=0.01, **CONSTANT_RATE)
    good, _ = learner.advance(learner.init(), replay, 3)
    kept, _, num_good, last = learner._advance(learner.init(), replay, jnp.int32(10))
    assert int(num_good) == 3
    assert not all(np.isfinite(value) for value in last.values())
    assert_same_bits(kept, good)
    np.testing.assert_allclose(kept.params["w"], 10.0 - 0.03, rtol=1e-5)


# Averaged parameters.


@pytest.mark.parametrize("averaging", [0.0, 0.2, 0.9])
def test_parameters_are_averaged_over_the_steps_by_hand(averaging):
    """Under a constant gradient and rate the parameters fall by 0.01 each step.

    Early steps weigh more, or the first parameters would be remembered for long.
    """

    class Falls(Breaks):
        def broken(self, w):
            return 1.0

    learner, replay = make_learner(Falls, learning_rate=0.01, averaging=averaging, **CONSTANT_RATE)
    state, _ = learner.advance(learner.init(), replay, 3)
    average = 10.0
    for newest, early in ((9.99, 9 / 10), (9.98, 9 / 11), (9.97, 9 / 12)):
        share = max(1 - averaging, early)
        average = (1 - share) * average + share * newest
    np.testing.assert_allclose(state.params["w"], 9.97, rtol=1e-6)
    np.testing.assert_allclose(state.average["w"], average, rtol=1e-6)


def test_targets_and_gradients_come_from_the_newest_parameters(learning):
    """The average acts and is scored; it has no say in what is learned from a given replay."""
    learner, replay = learning

    def after_a_step(**changed):
        # A step consumes its state, so each has its own.
        state = dataclasses.replace(learner.init(), **changed)
        state, metrics = learner.advance(state, replay, 1)
        return np.asarray(state.params["w"]), metrics["loss"]

    w = np.asarray(learner.init().params["w"])
    params, loss = after_a_step()
    same_params, same_loss = after_a_step(average={"w": jnp.asarray(w + 1.0)})
    from_newest, other_loss = after_a_step(params={"w": jnp.asarray(w + 1.0)})
    np.testing.assert_array_equal(params, same_params)
    assert loss == same_loss != other_loss
    np.testing.assert_allclose(from_newest, w + 1.0, atol=0.01)


def test_given_parameters_are_the_start_of_the_average_too(learning):
    learner, _ = learning
    state = learner.init({"w": np.array([3.0, 4.0], np.float32)})
    for tree in (state.params, state.average):
        np.testing.assert_array_equal(tree["w"], [3.0, 4.0])


# The optimizer.


def rates(**settings):
    """The learning rate of each step, read from updates under a constant gradient of +1."""
    config = tiny_config(**{"weight_decay": 0.0, "max_grad_norm": 100.0, **settings})
    optimizer = make_optimizer(config, jnp.ones(1))
    params = jnp.zeros(1)
    state, found = optimizer.init(params), []
    for _ in range(config.num_learner_steps + 2):
        updates, state = optimizer.update(jnp.ones(1), state, params)
        found.append(-float(updates[0]))
    return np.array(found)


def test_the_rate_warms_up_and_decays_by_a_cosine():
    found = rates(learning_rate=0.1, warmup_steps=4, num_learner_steps=12, final_learning_rate=0.2)
    warm = 0.1 * (1 / 4 + 3 / 4 * np.arange(4) / 4)
    decay = 0.1 * (0.2 + 0.8 * 0.5 * (1 + np.cos(np.pi * np.arange(9) / 8)))
    np.testing.assert_allclose(found[:4], warm, rtol=1e-3)
    np.testing.assert_allclose(found[4:13], decay, rtol=1e-3)
    assert found[13] == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize(("warmup", "total"), [(0, 5), (50, 5), (1, 1), (0, 1)])
def test_short_runs_have_a_positive_rate_at_every_step(warmup, total):
    found = rates(learning_rate=0.1, warmup_steps=warmup, num_learner_steps=total)
    assert (found > 0).all()
    assert found.max() <= 0.1 * 1.001


class Flat(Linear):
    """A loss without a slope: only decay moves the parameters."""

    def init(self, key):
        return {"bias": jnp.full(2, 4.0), "kernel": jnp.full((2, 2), 4.0)}

    def value(self, params, observation):
        return jnp.zeros(observation.shape[:-1])

    def loss(self, params, targets):
        loss = 0.0 * params["kernel"].sum()
        return loss, {"loss": loss}


def test_only_matrices_decay():
    settings = {**CONSTANT_RATE, "learning_rate": 0.1, "weight_decay": 0.5, "reanalyze_ratio": 0.0}
    learner, replay = make_learner(Flat, **settings)
    state, _ = learner.advance(learner.init(), replay, 1)
    np.testing.assert_allclose(state.params["kernel"], 4.0 - 0.1 * 0.5 * 4.0, rtol=1e-5)
    np.testing.assert_array_equal(state.params["bias"], 4.0)


def test_on_one_vector_updates_are_those_of_adamw_on_the_layers():
    config = tiny_config(learning_rate=0.1, weight_decay=0.5, max_grad_norm=1.0, warmup_steps=0)
    rng = np.random.default_rng(0)
    params = {"bias": jnp.ones(3), "kernel": jnp.ones((2, 3))}
    rate = optax.cosine_decay_schedule(0.1, config.num_learner_steps, config.final_learning_rate)
    mask = {"bias": False, "kernel": True}
    plain = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.5, mask=mask)
    )
    decays = ravel({"bias": jnp.zeros(3), "kernel": jnp.ones((2, 3))})
    flat = make_optimizer(config, decays)
    state, flat_state, flat_params = plain.init(params), flat.init(decays), ravel(params)
    for _ in range(5):
        grads = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), params)
        updates, state = plain.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        updates, flat_state = flat.update(ravel(grads), flat_state, flat_params)
        flat_params = optax.apply_updates(flat_params, updates)
        np.testing.assert_allclose(flat_params, ravel(params), rtol=1e-5)


def test_the_program_of_many_steps_never_turns_to_the_host():
    learner, replay = make_learner()
    program = learner._advance.lower(learner.init(), replay, jnp.int32(9)).compile().as_text()
    for way_out in ("callback", "infeed", "outfeed", " send(", " recv("):
        assert way_out not in program


def test_gradients_are_clipped_by_their_global_norm():
    """Adam forgets a constant scale, so the clip shows in a step after an unclipped one."""
    optimizer = make_optimizer(tiny_config(max_grad_norm=1.0, **CONSTANT_RATE), jnp.ones(2))
    params = jnp.zeros(2)
    moments = []
    for gradient in (jnp.array([3.0, 4.0]), jnp.array([300.0, 400.0])):
        _, state = optimizer.update(gradient, optimizer.init(params), params)
        moments.append(optax.tree.get(state, "mu"))
    np.testing.assert_allclose(moments[0], moments[1], rtol=1e-5)
    np.testing.assert_allclose(moments[0], [0.06, 0.08], rtol=1e-4)
