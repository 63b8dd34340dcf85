import gymnasium as gym
import numpy as np
import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.training.envs import (
    EnvironmentBatch,
    environment_factory,
    make_environment,
    make_environment_spec,
)
from tests.fakes import Walk


def batch_of(size=2, seed_of=lambda index, episode: 100 * index + episode, **settings):
    made = []

    def factory(index):
        made.append(Walk(**settings))
        return made[-1]

    return EnvironmentBatch(factory, size, seed_of), made


def play(batch, actions):
    """Returns the first observations, and the steps that answer `actions` [T, B]."""
    observation, _ = batch.reset()
    return observation, [batch.step(np.asarray(action)) for action in actions]


def test_the_first_observations_come_from_the_seeds():
    batch, _ = batch_of()
    observation, invalid = batch.reset()
    expected = [Walk().reset(seed=seed)[0] for seed in (0, 100)]
    np.testing.assert_array_equal(observation, expected)
    assert observation.dtype == np.float32
    assert invalid.shape == (2, 3)
    assert not invalid.any()


def test_every_episode_is_reset_with_its_own_seed():
    batch, made = batch_of(length=2)
    play(batch, [[0, 0]] * 5)
    assert made[0].seeds == [0, 1, 2]
    assert made[1].seeds == [100, 101, 102]
    np.testing.assert_array_equal(batch.episode, [2, 2])


def test_reset_starts_over_from_the_first_episode():
    batch, made = batch_of(length=2)
    first, steps = play(batch, [[0, 1]] * 3)
    again, repeated = play(batch, [[0, 1]] * 3)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(steps[2].observation, repeated[2].observation)
    assert made[0].seeds == [0, 1, 0, 1]


def test_a_trajectory_is_rebuilt_from_its_seed_and_actions():
    actions = np.random.default_rng(0).integers(3, size=(11, 2))
    batch, _ = batch_of(length=4)
    _, steps = play(batch, actions)
    # Episode 2 of environment 1 began after 8 steps; its 3 open steps are replayed alone.
    env = Walk(length=4)
    observation, _ = env.reset(seed=102)
    np.testing.assert_array_equal(steps[7].observation[1], observation)
    for step, action in zip(steps[8:], actions[8:, 1], strict=True):
        observation, reward, *_ = env.step(int(action))
        np.testing.assert_array_equal(step.observation[1], observation)
        assert step.reward[1] == np.float32(reward)


def test_what_an_environment_does_does_not_depend_on_its_neighbours():
    actions = np.random.default_rng(0).integers(3, size=(9, 3))
    wide, _ = batch_of(3)
    narrow, _ = batch_of(1)
    for one, other in zip(play(wide, actions)[1], play(narrow, actions[:, :1])[1], strict=True):
        np.testing.assert_array_equal(one.observation[:1], other.observation)
        np.testing.assert_array_equal(one.reward[:1], other.reward)


@pytest.mark.parametrize(
    ("ends", "terminated", "truncated"),
    [("terminated", True, False), ("truncated", False, True), ("both", True, False)],
)
def test_termination_wins_over_truncation(ends, terminated, truncated):
    batch, _ = batch_of(length=2, ends=ends)
    _, (first, second) = play(batch, [[0, 0]] * 2)
    assert not first.terminated.any()
    assert not first.truncated.any()
    np.testing.assert_array_equal(second.terminated, [terminated] * 2)
    np.testing.assert_array_equal(second.truncated, [truncated] * 2)


def test_the_final_observation_survives_an_environment_that_reuses_its_array():
    batch, _ = batch_of(length=2)
    _, steps = play(batch, [[1, 2]] * 2)
    env = Walk(length=2)
    env.reset(seed=0)
    middle = env.step(1)[0].copy()
    final = env.step(1)[0].copy()
    following = env.reset(seed=1)[0].copy()
    np.testing.assert_array_equal(steps[0].observation[0], middle)
    np.testing.assert_array_equal(steps[0].final_observation[0], middle)
    np.testing.assert_array_equal(steps[1].final_observation[0], final)
    np.testing.assert_array_equal(steps[1].observation[0], following)


def test_answers_are_not_changed_by_later_steps():
    batch, _ = batch_of(masked=True)
    observation, invalid = batch.reset()
    step = batch.step(np.array([0, 1]))
    kept = [x.copy() for x in (observation, invalid, step.observation, step.invalid_actions)]
    batch.step(np.array([2, 2]))
    for now, before in zip(
        (observation, invalid, step.observation, step.invalid_actions), kept, strict=True
    ):
        np.testing.assert_array_equal(now, before)


def test_only_episodes_that_ended_leave_their_last_info():
    batch, _ = batch_of(length=2)
    _, (first, second) = play(batch, [[0, 0]] * 2)
    assert first.final_info == [None, None]
    assert [info["time"] for info in second.final_info] == [2, 2]


def test_actions_count_from_0_whatever_the_space_starts_at():
    batch, made = batch_of(start=5)
    play(batch, [[0, 2], [1, 0]])
    assert made[0].actions == [5, 6]
    assert made[1].actions == [7, 5]


def test_illegal_actions_are_read_from_info_at_reset_step_and_autoreset():
    batch, _ = batch_of(length=2, masked=True)
    _, invalid = batch.reset()
    legal = [np.flatnonzero(~invalid[0]).tolist()]
    for _ in range(3):
        step = batch.step(np.array([0, 0]))
        legal.append(np.flatnonzero(~step.invalid_actions[0]).tolist())
    assert legal == [[0], [1], [0], [1]]


def test_close_closes_every_environment():
    batch, made = batch_of()
    batch.close()
    assert [env.closed for env in made] == [True, True]


# Making environments.


def test_the_spec_of_a_known_environment():
    env = make_environment("CartPole-v1")
    assert make_environment_spec(env) == (4, 2)
    env.close()


def test_flatten_makes_blackjack_fit():
    env = environment_factory("Blackjack-v1", ["flatten"])(0)
    assert make_environment_spec(env).num_actions == 2
    assert env.reset(seed=0)[0].ndim == 1
    env.close()


def test_time_limit_truncates():
    env = make_environment("CartPole-v1", ["time_limit:3"])
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("env_id", "wrappers", "words"),
    [
        ("NoSuch-v0", [], ["'NoSuch-v0'", "cannot be made"]),
        ("CartPole-v99", [], ["'CartPole-v99'"]),
        ("no_such_package:Thing-v0", [], ["no_such_package"]),
        ("", [], ["''"]),
        ("not an id", [], ["'not an id'"]),
        ("Blackjack-v1", [], ["Blackjack-v1", "Tuple", "`flatten`"]),
        ("Pendulum-v1", [], ["Pendulum-v1", "Box(1,)", "`discretise:5`"]),
        ("CartPole-v1", ["shrink"], ["'shrink'", "flatten, discretise, time_limit"]),
        ("CartPole-v1", ["flatten:3"], ["'flatten:3'", "none"]),
        ("CartPole-v1", ["time_limit"], ["'time_limit'", "time_limit:200"]),
        ("CartPole-v1", ["time_limit:0"], ["'time_limit:0'", "above 0"]),
        ("CartPole-v1", ["time_limit:-1"], ["'time_limit:-1'", "above 0"]),
        ("CartPole-v1", ["time_limit:²"], ["'time_limit:²'", "above 0"]),
        ("CartPole-v1", ["discretise:5"], ["discretise:5", "Box"]),
        ("CartPole-v1", ["no_such_package:Wrapper"], ["no_such_package"]),
        ("CartPole-v1", ["gymnasium.wrappers:NoSuch"], ["NoSuch"]),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(env_id, wrappers, words):
    with pytest.raises(UserError) as error:
        make_environment(env_id, wrappers)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_images_are_refused_without_advice_to_flatten():
    class Screen(Walk):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    with pytest.raises(UserError, match=r"Screen has observations of .*images are not supported"):
        make_environment_spec(Screen())


def test_several_actions_at_once_are_refused():
    env = Walk()
    env.action_space = gym.spaces.MultiDiscrete([2, 3])
    with pytest.raises(UserError, match=r"Walk has actions of MultiDiscrete.*allowed is Discrete"):
        make_environment_spec(env)


def test_an_imported_wrapper_is_called_with_the_environment():
    env = make_environment("CartPole-v1", ["gymnasium.wrappers:FlattenObservation"])
    assert isinstance(env, gym.wrappers.FlattenObservation)
