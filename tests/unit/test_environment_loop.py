import jax
import numpy as np
import pytest

from mujax_pipe.errors import RunError
from mujax_pipe.training.actor import Actor
from mujax_pipe.training.environment_loop import EnvironmentLoop
from mujax_pipe.training.envs import EnvironmentBatch
from mujax_pipe.training.replay import empty_transition
from tests.fakes import SPEC, Linear, Walk, tiny_config

PARAMS = {"w": np.array([2.0, -1.0], np.float32)}
STEP = np.int32(0)


def make_loop(seed=0, size=2, factory=Walk, index=0, params=PARAMS, **settings):
    made = []

    def make(index):
        made.append(factory(**settings))
        return made[-1]

    environments = EnvironmentBatch(make, size, lambda index, episode: 100 * index + episode)
    actor = Actor(Linear(tiny_config(), SPEC), seed)
    actor.update(params, STEP)
    return EnvironmentLoop(actor, environments, index=index), made


@pytest.fixture(scope="module")
def played():
    """Ten steps of two environments whose episodes of three steps are cut."""
    loop, made = make_loop(length=3, ends="truncated")
    chunk, episodes = loop.act(10)
    return chunk, episodes, made


def test_a_chunk_has_the_shapes_and_types_that_replay_stores(played):
    chunk, _, _ = played
    kinds = jax.tree.map(lambda x: (x.shape, x.dtype), chunk)
    assert kinds == jax.tree.map(lambda x: ((2, 10, *x.shape), x.dtype), empty_transition(SPEC))


def test_a_chunk_is_rebuilt_from_seeds_and_actions(played):
    chunk, _, made = played
    for row, env in enumerate(made):
        np.testing.assert_array_equal(chunk.action[row], env.actions)
        again, time = Walk(length=3, ends="truncated"), 0
        for episode in range(4):
            observation, _ = again.reset(seed=100 * row + episode)
            ended = False
            while not ended and time < 10:
                np.testing.assert_array_equal(chunk.observation[row, time], observation)
                answer = again.step(int(chunk.action[row, time]))
                observation, reward, _, ended, _ = answer
                assert chunk.reward[row, time] == np.float32(reward)
                assert chunk.truncated[row, time] == ended
                if ended:
                    value = np.float32(observation @ PARAMS["w"])
                    assert chunk.bootstrap_value[row, time] == pytest.approx(value, rel=1e-5)
                else:
                    assert chunk.bootstrap_value[row, time] == 0.0
                time += 1
    np.testing.assert_array_equal(chunk.discount, 1.0)


def test_the_search_of_the_observation_is_recorded(played):
    chunk, _, _ = played
    np.testing.assert_allclose(chunk.value, 100 + chunk.observation @ PARAMS["w"], rtol=1e-5)
    np.testing.assert_allclose(chunk.policy_probs, 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(chunk.action_prob, 1 / 3, rtol=1e-6)


def test_a_terminated_step_has_no_discount_and_no_bootstrap_value():
    loop, _ = make_loop(length=3, ends="terminated")
    chunk, _ = loop.act(6)
    np.testing.assert_array_equal(chunk.discount, [[1, 1, 0, 1, 1, 0]] * 2)
    assert not chunk.truncated.any()
    np.testing.assert_array_equal(chunk.bootstrap_value, 0.0)


def test_finished_episodes_are_reported_with_return_and_length(played):
    chunk, episodes, _ = played
    # In the order of their ends: both environments after 3, 6 and 9 steps.
    expected = [chunk.reward[row, t : t + 3].sum() for t in (0, 3, 6) for row in (0, 1)]
    np.testing.assert_allclose([e.episode_return for e in episodes], expected, rtol=1e-5)
    assert [e.length for e in episodes] == [3] * 6


def test_an_episode_that_spans_chunks_is_counted_whole():
    loop, _ = make_loop(size=1, length=5, reward=1.0)
    _, nothing = loop.act(4)
    _, (episode,) = loop.act(4)
    assert nothing == []
    assert (episode.episode_return, episode.length) == (5.0, 5)


def test_splitting_a_chunk_changes_no_bit():
    whole, _ = make_loop()[0].act(7)
    loop, _ = make_loop()
    parts = [loop.act(n)[0] for n in (1, 4, 2)]
    split = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *parts)
    jax.tree.map(np.testing.assert_array_equal, whole, split)


def test_actions_explore_by_seed_and_time():
    one, again, other = (make_loop(seed)[0].act(12)[0].action for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert set(one.ravel().tolist()) == {0, 1, 2}
    assert (one[0] != one[1]).any()


def test_another_actor_of_the_same_run_draws_other_actions():
    one, other = (make_loop(index=i)[0].act(12)[0].action for i in (0, 1))
    assert (one != other).any()


def test_illegal_actions_are_recorded_and_not_played():
    loop, _ = make_loop(masked=True, length=3)
    chunk, _ = loop.act(7)
    # Walk allows the action that equals the time.
    np.testing.assert_array_equal(chunk.action, [[0, 1, 2, 0, 1, 2, 0]] * 2)
    np.testing.assert_array_equal(np.argmin(chunk.invalid_actions, axis=-1), chunk.action)
    np.testing.assert_array_equal(chunk.policy_probs, ~chunk.invalid_actions)


def test_a_bootstrap_value_belongs_to_the_environment_that_was_cut():
    loop, _ = make_loop(length=(1, 6), ends="truncated")
    chunk, _ = loop.act(12)
    assert (chunk.truncated[0] != chunk.truncated[1]).any()
    np.testing.assert_array_equal(chunk.bootstrap_value != 0.0, chunk.truncated)


def test_the_parameters_given_are_the_ones_that_act(played):
    params = {"w": np.zeros(2, np.float32)}
    loop, _ = make_loop(length=3, ends="truncated", params=params)
    chunk, _ = loop.act(3)
    np.testing.assert_array_equal(chunk.value, 100.0)
    np.testing.assert_array_equal(chunk.bootstrap_value, 0.0)


class Broken(Walk):
    def __init__(self, part):
        super().__init__(length=2)
        self.part = part

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        if self.part == "first observation":
            observation[0] = np.nan
        return observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self._time == 2 and self.part == "reward":
            reward = float("nan")
        if self._time == {"observation": 1, "final observation": 2}.get(self.part):
            observation[1] = np.inf
        return observation, reward, *rest


@pytest.mark.parametrize(
    "part", ["reward", "observation", "final observation", "first observation"]
)
def test_an_environment_that_returns_nonsense_is_named(part):
    what = part.replace("first ", "").replace(" ", "_")
    with pytest.raises(RunError, match=f"environment 0 returned a {what} that is not finite"):
        make_loop(factory=Broken, part=part)[0].act(2)
