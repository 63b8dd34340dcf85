"""What a factory returns, as one batch: single environments, plain and other vector ones."""

import functools
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from mujax_pipe.errors import RunError, UserError
from mujax_pipe.training.vector_envs import VectorBatch, make_batch
from tests.fakes import SPEC, Walk


def seed_of(index, episode):
    return 100 * index + episode


class Foreign(SyncVectorEnv):
    """No plain SyncVectorEnv, so nothing is known of what is inside; the infos are Gymnasium's."""


class Fresh(Walk):
    """Hands out a new array each time: Gymnasium keeps the last one of an episode, uncopied."""

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return observation.copy(), info

    def step(self, action):
        observation, *rest = super().step(action)
        return observation.copy(), *rest


def vector(cls=Foreign, size=2, mode=AutoresetMode.SAME_STEP, **settings):
    """Returns a vector environment and the environments in it."""
    makes = [functools.partial(Fresh if cls is Foreign else Walk, **settings)] * size
    return cls(makes, autoreset_mode=mode)


def batch_of(cls=Foreign, size=2, **settings):
    env = vector(cls, size, **settings)
    return make_batch(lambda index: env, size, seed_of), env


def play(batch, actions):
    observation, invalid = batch.reset()
    return observation, invalid, [batch.step(np.asarray(action)) for action in actions]


ACTIONS = np.random.default_rng(0).integers(3, size=(12, 2))


def same_steps(ones, others):
    for one, other in zip(ones, others, strict=True):
        for name in (
            "observation",
            "invalid_actions",
            "reward",
            "terminated",
            "truncated",
            "final_observation",
        ):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
            assert getattr(one, name).dtype == getattr(other, name).dtype
        assert [info and info["time"] for info in one.final_info] == [
            info and info["time"] for info in other.final_info
        ]


def test_single_environments_are_made_as_many_as_asked_for():
    numbers, made = [], []

    def factory(index):
        numbers.append(index)
        made.append(Walk(length=2))
        return made[-1]

    batch = make_batch(factory, 3, seed_of)
    assert (len(batch), numbers, batch.spec, batch.exact_resume) == (3, [0, 1, 2], SPEC, True)
    play(batch, [[0, 0, 0]] * 3)
    assert [env.seeds for env in made] == [[0, 1], [100, 101], [200, 201]]
    batch.close()
    assert all(env.closed for env in made)


@pytest.mark.parametrize("cls", [SyncVectorEnv, Foreign])
def test_a_vector_environment_brings_its_own_number(cls):
    env, calls = vector(cls, 4), []
    batch = make_batch(lambda index: calls.append(index) or env, 16, seed_of)
    assert (len(batch), calls, batch.spec) == (4, [0], SPEC)
    observation, invalid = batch.reset()
    assert (observation.shape, observation.dtype) == ((4, 2), np.float32)
    assert invalid.shape == (4, 3)
    assert not invalid.any()
    batch.close()
    assert all(inner.closed for inner in env.envs)


def test_each_episode_inside_a_plain_vector_environment_gets_its_own_seed():
    batch, env = batch_of(SyncVectorEnv, length=2)
    assert batch.exact_resume
    play(batch, [[0, 0]] * 5)
    assert [inner.seeds for inner in env.envs] == [[0, 1, 2], [100, 101, 102]]


@pytest.mark.parametrize("settings", [{}, {"masked": True}, {"ends": "truncated"}, {"start": 5}])
def test_a_plain_vector_environment_gives_what_its_environments_give(settings):
    vectorised, _ = batch_of(SyncVectorEnv, length=(1, 5), **settings)
    single = make_batch(lambda index: Walk(length=(1, 5), **settings), 2, seed_of)
    one, other = play(vectorised, ACTIONS), play(single, ACTIONS)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    same_steps(one[2], other[2])


@pytest.mark.parametrize("ends", ["terminated", "truncated", "both"])
def test_another_vector_environment_gives_the_same_first_episodes(ends):
    """Later ones have no seeds of their own."""
    batch, env = batch_of(length=6, ends=ends)
    assert isinstance(batch, VectorBatch)
    single = make_batch(lambda index: Walk(length=6, ends=ends), 2, seed_of)
    one, other = play(batch, ACTIONS[:6]), play(single, ACTIONS[:6])
    np.testing.assert_array_equal(one[0], other[0])
    same_steps(one[2][:5], other[2][:5])
    last, expected = one[2][5], other[2][5]
    for name in ("reward", "terminated", "truncated", "final_observation"):
        np.testing.assert_array_equal(getattr(last, name), getattr(expected, name))
    assert [info["time"] for info in last.final_info] == [6, 6]
    assert (last.observation != last.final_observation).all()
    assert [inner.seeds for inner in env.envs] == [[0, None], [100, None]]
    np.testing.assert_array_equal(batch.episode, [1, 1])


def test_the_final_observation_and_info_are_those_of_the_environment_that_ended():
    class Uneven(Fresh):
        """The second one made lasts longer."""

        count = 0

        def __init__(self):
            super().__init__(length=2 + 2 * (Uneven.count % 2))
            Uneven.count += 1

    env = Foreign([Uneven, Uneven], autoreset_mode=AutoresetMode.SAME_STEP)
    batch = make_batch(lambda index: env, 2, seed_of)
    _, _, (first, second, third, fourth) = play(batch, ACTIONS[:4])
    assert first.final_info == third.final_info == [None, None]
    assert second.final_info[0]["time"] == 2
    assert second.final_info[1] is None
    np.testing.assert_array_equal(second.terminated, [True, False])
    again = Walk(length=2)
    again.reset(seed=0)
    again.step(int(ACTIONS[0, 0]))
    expected = again.step(int(ACTIONS[1, 0]))[0]
    np.testing.assert_array_equal(second.final_observation[0], expected)
    np.testing.assert_array_equal(second.final_observation[1], second.observation[1])
    assert [info["time"] for info in fourth.final_info] == [2, 4]
    np.testing.assert_array_equal(batch.episode, [2, 1])


def test_actions_count_from_0_whatever_the_space_of_a_vector_environment_starts_at():
    batch, env = batch_of(start=5)
    play(batch, [[0, 2], [1, 0]])
    assert [inner.actions for inner in env.envs] == [[5, 6], [7, 5]]


def test_illegal_actions_are_read_at_reset_step_and_autoreset():
    batch, _ = batch_of(length=2, masked=True)
    _, invalid, steps = play(batch, [[0, 0], [1, 1], [0, 0]])
    masks = [invalid, *(step.invalid_actions for step in steps)]
    legal = [np.flatnonzero(~mask[0]).tolist() for mask in masks]
    assert legal == [[0], [1], [0], [1]]


class Masking(Walk):
    """Names illegal actions in the info when told to."""

    def __init__(self, mask=None):
        super().__init__()
        self.mask = mask

    def _info(self):
        return {} if self.mask is None else {"invalid_actions": np.array(self.mask)}


def masking(cls, *masks):
    makes = [functools.partial(Masking, mask) for mask in masks]
    env = cls(makes, autoreset_mode=AutoresetMode.SAME_STEP)
    return make_batch(lambda index: env, len(masks), seed_of)


@pytest.mark.parametrize("cls", [SyncVectorEnv, Foreign])
def test_masks_of_some_environments_only_leave_the_others_free(cls):
    batch = masking(cls, None, [1, 0, 1], None)
    _, invalid, (first, second, third) = play(batch, [[1, 1, 1]] * 3)
    for mask in (invalid, first.invalid_actions, third.invalid_actions):
        np.testing.assert_array_equal(mask, [[0, 0, 0], [1, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize("cls", [SyncVectorEnv, Foreign])
@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([None, [0, 1]], r"environment 1 has .*of shape \(2,\): allowed is \(3,\)"),
        ([None, [[0, 1, 1]]], r"environment 1 has .*of shape \(1, 3\): allowed is \(3,\)"),
        ([[1, 1, 1], None], "environment 0 says that all 3 actions are illegal"),
    ],
)
def test_masks_that_cannot_be_are_refused(cls, masks, message):
    batch = masking(cls, *masks)
    with pytest.raises(RunError, match=message):
        batch.reset()


@pytest.mark.parametrize("mask", [[0, 1], [1, 1, 1]])
def test_a_mask_that_turns_bad_in_the_middle_is_refused(mask):
    env = Masking([0, 0, 0])
    batch = make_batch(lambda index: env, 1, seed_of)
    play(batch, [[0]])
    env.mask = mask
    with pytest.raises(RunError, match="environment 0"):
        batch.step(np.array([0]))


@pytest.mark.parametrize("cls", [SyncVectorEnv, Foreign])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_other_autoreset_modes_are_refused_with_the_reason(cls, mode):
    env = vector(cls, mode=mode)
    with pytest.raises(UserError) as error:
        make_batch(lambda index: env, 2, seed_of)
    message = str(error.value)
    for words in (cls.__name__, mode.name, "SAME_STEP", "no action led to"):
        assert words in message
    assert env.closed


def test_a_vector_environment_that_names_no_autoreset_mode_is_refused():
    class Silent(gym.vector.VectorEnv):
        metadata: ClassVar = {}

    with pytest.raises(UserError, match="Silent has the autoreset mode None: allowed is SAME_STEP"):
        make_batch(lambda index: Silent(), 2, seed_of)


def test_spaces_of_a_vector_environment_that_do_not_fit_are_refused():
    make = functools.partial(gym.make, "Blackjack-v1")
    env = SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(UserError, match="flatten"):
        make_batch(lambda index: env, 2, seed_of)


def test_a_vector_environment_that_cannot_be_rebuilt_goes_on_with_new_episodes():
    batch, env = batch_of(length=2)
    assert not batch.exact_resume
    play(batch, [[0, 0]] * 3)
    saved = batch.snapshot()
    observation, invalid = batch.restore(saved)
    assert [inner.seeds[-1] for inner in env.envs] == [2, 102]
    np.testing.assert_array_equal(batch.episode, [2, 2])
    np.testing.assert_array_equal(observation[1], Walk().reset(seed=102)[0])
    assert invalid.shape == (2, 3)


def test_answers_of_a_vector_environment_are_not_changed_by_later_steps():
    batch, _ = batch_of(masked=True)
    observation, invalid = batch.reset()
    step = batch.step(np.array([0, 0]))
    arrays = (observation, invalid, step.observation, step.final_observation, step.reward)
    kept = [array.copy() for array in arrays]
    batch.step(np.array([1, 1]))
    for now, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(now, before)


def test_environments_in_processes_of_their_own():
    make = functools.partial(gym.make, "CartPole-v1")
    env = AsyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP, context="spawn")
    batch = make_batch(lambda index: env, 2, seed_of)
    try:
        actions = np.zeros((30, 2), np.int64)  # Falls after about ten.
        observation, _, steps = play(batch, actions)
    finally:
        batch.close()
    single = make_batch(lambda index: make(), 2, seed_of)
    first, _, expected = play(single, actions)
    np.testing.assert_array_equal(observation, first)
    ended = next(i for i, step in enumerate(steps) if step.terminated.any())
    np.testing.assert_array_equal(steps[ended].final_observation, expected[ended].final_observation)
    assert batch.episode.min() >= 1
