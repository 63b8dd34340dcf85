"""Actors side by side: a chunk depends on seeds alone, never on who was faster."""

import threading
import time

import jax
import numpy as np
import pytest

from mujax_pipe.errors import RunError
from mujax_pipe.training.actor import Actor
from mujax_pipe.training.environment_loop import EnvironmentLoop, EnvironmentLoops
from mujax_pipe.training.envs import EnvironmentBatch
from tests.fakes import SPEC, Linear, Walk, tiny_config

PARAMS = {"w": np.array([2.0, -1.0], np.float32)}
STEP = np.int32(0)


class Slow(Walk):
    """Takes its time, at random."""

    def __init__(self, jitter=0.0, **settings):
        super().__init__(**settings)
        self._jitter = jitter
        self._rng = np.random.default_rng()
        self.threads = set()

    def step(self, action):
        self.threads.add(threading.current_thread().name)
        time.sleep(self._rng.uniform(0.0, self._jitter))
        return super().step(action)


def make_batches(num_actors=2, size=2, jitters=(0.0, 0.0), **settings):
    """Environments are numbered through all actors, and so are their seeds."""
    made = []

    def batch(actor):
        def factory(index):
            made.append(Slow(jitters[actor], **settings))
            return made[-1]

        return EnvironmentBatch(
            factory, size, lambda index, episode: 100 * (size * actor + index) + episode
        )

    return [batch(actor) for actor in range(num_actors)], made


@pytest.fixture(scope="module")
def actor():
    """Compiled once for all tests."""
    return Actor(Linear(tiny_config(), SPEC), seed=0)


@pytest.fixture
def make_loops(monkeypatch, actor):
    monkeypatch.setattr("mujax_pipe.training.environment_loop.Actor", lambda algorithm, seed: actor)
    opened = []

    def make(observers=(), **settings):
        batches, made = make_batches(**settings)
        opened.append(EnvironmentLoops(Linear(tiny_config(), SPEC), batches, 0, observers))
        return opened[-1], made

    yield make
    for actors in opened:
        actors.close()


def assert_same_bits(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


class Watches:
    def __init__(self):
        self.seen = []

    def observe(self, **seen):
        assert threading.current_thread() is threading.main_thread()
        self.seen.append(seen)

    def metrics(self):
        return {}


@pytest.mark.parametrize("jitters", [(0.01, 0.0), (0.0, 0.01), (0.005, 0.005)])
def test_timing_changes_no_bit(make_loops, jitters):
    settings = {"length": (1, 4), "ends": "truncated"}
    watched = [Watches(), Watches()]
    even, _ = make_loops([watched[0]], **settings)
    uneven, made = make_loops([watched[1]], jitters=jitters, **settings)
    for _ in range(2):
        (one, episodes), (other, again) = (a.act(PARAMS, STEP, 6) for a in (even, uneven))
        assert_same_bits(one, other)
        assert episodes == again != []
    assert_same_bits(even.snapshot(), uneven.snapshot())
    for first, second in zip(watched[0].seen, watched[1].seen, strict=True):
        np.testing.assert_array_equal(first["answer"].reward, second["answer"].reward)
    assert len({thread for env in made for thread in env.threads}) == 2


def test_actors_act_at_the_same_time(actor):
    """Each environment waits for the other actor's: one after the other they would never meet."""
    barrier = threading.Barrier(2, timeout=10)

    class Meets(Walk):
        def step(self, action):
            barrier.wait()
            return super().step(action)

    batches = [EnvironmentBatch(lambda i: Meets(), 1, lambda i, e: e) for _ in range(2)]
    actors = EnvironmentLoops(Linear(tiny_config(), SPEC), batches, 0)
    actors.act(PARAMS, STEP, 3)
    actors.close()


def test_rows_are_in_the_order_of_the_actors(make_loops, actor):
    actors, _ = make_loops(jitters=(0.01, 0.0), length=3)
    chunk, episodes = actors.act(PARAMS, STEP, 5)
    actor.update(PARAMS, STEP)
    alone = [
        EnvironmentLoop(actor, batch, index=index).act(5)
        for index, batch in enumerate(make_batches(length=3)[0])
    ]
    assert chunk.reward.shape == (4, 5)
    for index, (rows, _) in enumerate(alone):
        part = jax.tree.map(lambda x, i=index: x[2 * i : 2 * i + 2], chunk)
        assert_same_bits(part, rows)
    assert episodes == alone[0][1] + alone[1][1]
    for row in range(4):
        np.testing.assert_array_equal(chunk.observation[row, 0], Walk().reset(seed=100 * row)[0])


def test_actors_draw_actions_of_their_own(make_loops):
    chunk, _ = make_loops(size=1)[0].act(PARAMS, STEP, 20)
    assert (chunk.action[0] != chunk.action[1]).any()


def test_observers_see_each_step_of_all_environments_in_order(make_loops):
    watches = Watches()
    actors, _ = make_loops([watches], length=2, jitters=(0.01, 0.0))
    chunk, _ = actors.act(PARAMS, STEP, 4)
    more, _ = actors.act(PARAMS, STEP, 1)
    chunk = jax.tree.map(lambda a, b: np.concatenate([a, b], axis=1), chunk, more)
    assert len(watches.seen) == 5
    for t, seen in enumerate(watches.seen):
        assert seen.keys() == {"observation", "action", "policy_probs", "answer"}
        for name in ("observation", "action", "policy_probs"):
            np.testing.assert_array_equal(seen[name], getattr(chunk, name)[:, t])
        answer = seen["answer"]
        np.testing.assert_array_equal(answer.reward, chunk.reward[:, t])
        np.testing.assert_array_equal(answer.terminated, chunk.discount[:, t] == 0.0)
        assert [info and info["time"] for info in answer.final_info] == [2 if t % 2 else None] * 4
        if t < 4 and not answer.terminated.any():
            np.testing.assert_array_equal(answer.final_observation, chunk.observation[:, t + 1])


def test_a_snapshot_brings_back_the_open_episodes(make_loops):
    """The rest of a run, and the returns of episodes that span the stop, are the same."""
    settings = {"length": (3, 6), "ends": "truncated"}
    straight, _ = make_loops(**settings)
    straight.act(PARAMS, STEP, 4)
    saved = straight.snapshot()
    expected = [straight.act(PARAMS, STEP, 6) for _ in range(2)]
    again, _ = make_loops(**settings)
    assert again.restore(saved) is True
    assert_same_bits(again.snapshot(), saved)
    for (chunk, episodes), (other, others) in zip(
        expected, [again.act(PARAMS, STEP, 6) for _ in range(2)], strict=True
    ):
        assert_same_bits(chunk, other)
        assert episodes == others != []


def test_a_snapshot_is_not_changed_by_later_steps(make_loops):
    actors, _ = make_loops()
    actors.act(PARAMS, STEP, 4)
    saved = actors.snapshot()
    kept = jax.tree.map(np.array, saved)
    actors.act(PARAMS, STEP, 4)
    assert_same_bits(saved, kept)


def test_an_environment_that_is_not_a_function_of_its_seed_is_named(make_loops):
    actors, _ = make_loops(length=10)
    actors.act(PARAMS, STEP, 4)
    saved = actors.snapshot()
    saved["1"]["environments"]["observation"][1] += 1.0
    with pytest.raises(
        RunError, match=r"environment \d cannot be resumed: replaying its 4 actions"
    ):
        make_loops(length=10)[0].restore(saved)


def test_an_error_of_one_actor_reaches_the_caller(make_loops):
    actors, made = make_loops()

    def fails(action):
        raise OSError("unplugged")

    made[3].step = fails
    with pytest.raises(OSError, match="unplugged"):
        actors.act(PARAMS, STEP, 4)


def test_the_environment_that_returns_nonsense_is_numbered_through_all_actors(make_loops):
    actors, made = make_loops(reward=1.0)
    made[3]._reward = float("nan")
    with pytest.raises(RunError, match="environment 3 returned a reward"):
        actors.act(PARAMS, STEP, 2)
