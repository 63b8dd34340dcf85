import gymnasium as gym
import numpy as np
import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.training.wrappers import ActionMask, DiscretiseActions, Mask2048
from tests.fakes import Walk


class Continuous(Walk):
    def __init__(self, low, high):
        super().__init__()
        self.action_space = gym.spaces.Box(np.float32(low), np.float32(high), dtype=np.float32)
        self.received = None

    def step(self, action):
        self.received = action
        action[:] = 0.0  # Some environments clip in place.
        return self.reset()[0], 0.0, False, False, {}


def wrapped(low=(-2.0,), high=(2.0,), bins=5):
    return DiscretiseActions(Continuous(low, high), bins)


def values(env):
    env.reset(seed=0)
    received = []
    for action in range(env.action_space.n):
        received.append(env.action(action).tolist())
    return received


def test_one_dimension_is_an_even_grid():
    env = wrapped()
    assert env.action_space == gym.spaces.Discrete(5)
    assert values(env) == [[-2.0], [-1.0], [0.0], [1.0], [2.0]]


def test_two_dimensions_are_every_combination():
    env = wrapped(low=(0.0, -1.0), high=(1.0, 1.0), bins=2)
    assert values(env) == [[0.0, -1.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]]


def test_the_environment_gets_a_copy_in_its_own_type():
    env = wrapped()
    env.reset(seed=0)
    env.step(4)
    assert env.unwrapped.received.dtype == np.float32
    assert env.action(4).tolist() == [2.0]


def test_pendulum_steps():
    env = DiscretiseActions(gym.make("Pendulum-v1"), 3)
    env.reset(seed=0)
    assert np.isfinite(env.step(2)[1])
    env.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bins": 1}, ("discretise:1", "1 actions", "2 bins")),
        ({"low": (-1.0,) * 5, "high": (1.0,) * 5}, ("discretise:5", "3125 actions", "1024")),
        ({"low": (-np.inf,)}, ("discretise:5", "bounded")),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(settings, words):
    with pytest.raises(UserError) as error:
        wrapped(**settings)
    for word in words:
        assert word in str(error.value)


def test_discrete_actions_are_refused():
    with pytest.raises(UserError, match=r"discretise:5 needs Box actions, found Discrete\(3\)"):
        DiscretiseActions(Walk(), 5)


def test_in_2048_exactly_the_moves_that_change_the_board_are_legal():
    env = gym.make("gymnasium_2048:gymnasium_2048/TwentyFortyEight-v0")
    masked, rng = Mask2048(env), np.random.default_rng(0)
    _, info = masked.reset(seed=0)
    seen = 0
    for _ in range(2000):
        illegal = info["invalid_actions"]
        for action in range(4):
            moved = env.unwrapped.apply_action(info["board"], action)[0]
            assert illegal[action] == (moved == info["board"]).all()
        seen += illegal.sum()
        _, _, terminated, _, info = masked.step(rng.choice(np.flatnonzero(~illegal)))
        assert info["is_legal"]
        if terminated:
            # No action is chosen any more, and a mask of all would be refused.
            assert not info["invalid_actions"].any()
            break
    assert terminated
    assert seen > 10


def test_the_mask_of_2048_is_for_2048_alone():
    with pytest.raises(UserError, match=r"mask_2048 is for .*TwentyFortyEight-v0, found <Walk"):
        Mask2048(Walk())


def test_masks_of_gymnasium_are_heeded():
    env = gym.make("Taxi-v4")
    masked, rng = ActionMask(env), np.random.default_rng(0)
    _, info = masked.reset(seed=0)
    for _ in range(100):
        np.testing.assert_array_equal(info["invalid_actions"], info["action_mask"] == 0)
        _, reward, _, _, info = masked.step(rng.choice(np.flatnonzero(~info["invalid_actions"])))
        assert reward > -10
    assert info["invalid_actions"].any()


class Masked(Walk):
    """Says at every step that nothing is legal."""

    def reset(self, **options):
        observation, info = super().reset(**options)
        return observation, {**info, "action_mask": np.zeros(self.action_space.n, np.int8)}


def test_a_mask_that_leaves_nothing_counts_as_none():
    _, info = ActionMask(Masked()).reset(seed=0)
    np.testing.assert_array_equal(info["invalid_actions"], np.zeros(Walk().action_space.n, bool))


def test_an_environment_without_a_mask_is_named():
    with pytest.raises(UserError, match=r"action_mask needs info\['action_mask'\]"):
        ActionMask(Walk()).reset(seed=0)
