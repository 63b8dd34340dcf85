import math

import numpy as np
import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.training.envs import Step
from mujax_pipe.training.observers import (
    ActionFractionObserver,
    EpisodeObserver,
    InfoKeysObserver,
    PolicyEntropyObserver,
)


def answer(reward, terminated=(False, False), truncated=(False, False), final_info=(None, None)):
    """What two environments answer."""
    return Step(
        observation=np.zeros((2, 1), np.float32),
        invalid_actions=np.zeros((2, 3), bool),
        reward=np.array(reward, np.float32),
        terminated=np.array(terminated),
        truncated=np.array(truncated),
        final_observation=np.zeros((2, 1), np.float32),
        final_info=list(final_info),
    )


def see(observer, step=None, action=(0, 0), policy_probs=((1.0, 0.0, 0.0), (1.0, 0.0, 0.0))):
    observer.observe(
        observation=np.zeros((2, 1), np.float32),
        action=np.array(action, np.int32),
        policy_probs=np.array(policy_probs, np.float32),
        answer=answer((0.0, 0.0)) if step is None else step,
    )


def test_episodes_count_where_they_end_with_all_their_steps():
    observer = EpisodeObserver()
    see(observer, answer((1.0, 10.0)))
    assert observer.metrics() == {}
    see(observer, answer((2.0, 20.0), terminated=(True, False)))  # 1 + 2 in 2 steps
    see(observer, answer((5.0, 30.0), truncated=(True, True)))  # 5 in 1 step; 60 in 3
    assert observer.metrics() == {
        "episode_return": pytest.approx((3 + 5 + 60) / 3),
        "episode_return_min": 3.0,
        "episode_return_max": 60.0,
        "episode_length": 2.0,
        "episode_length_min": 1.0,
        "episode_length_max": 3.0,
    }


def test_episodes_are_told_once():
    observer = EpisodeObserver()
    see(observer, answer((7.0, 0.0), terminated=(True, True)))
    assert observer.metrics()["episode_return_max"] == 7.0
    assert observer.metrics() == {}
    see(observer, answer((1.0, 2.0), terminated=(True, True)))
    assert observer.metrics()["episode_return"] == 1.5


def test_action_fractions_name_every_action_and_start_anew():
    observer = ActionFractionObserver()
    assert observer.metrics() == {}
    see(observer, action=(0, 1))
    see(observer, action=(1, 1))
    assert observer.metrics() == {
        "action_fraction/0": 0.25,
        "action_fraction/1": 0.75,
        "action_fraction/2": 0.0,
    }
    see(observer, action=(2, 2))
    assert observer.metrics()["action_fraction/2"] == 1.0
    assert observer.metrics() == {}


def test_entropy_is_zero_for_a_sure_policy():
    observer = PolicyEntropyObserver()
    see(observer, policy_probs=((0.0, 1.0, 0.0), (1.0, 0.0, 0.0)))
    assert observer.metrics() == {"policy_entropy": 0.0}
    assert observer.metrics() == {}


def test_entropy_is_the_mean_over_environments_and_steps_in_nats():
    observer = PolicyEntropyObserver()
    see(observer, policy_probs=((0.5, 0.5, 0.0), (1.0, 0.0, 0.0)))
    see(observer, policy_probs=((0.25, 0.25, 0.5), (0.5, 0.0, 0.5)))
    expected = (math.log(2) + 0.0 + 1.5 * math.log(2) + math.log(2)) / 4
    assert observer.metrics()["policy_entropy"] == pytest.approx(expected, rel=1e-12)


def test_info_keys_are_averaged_over_the_infos_that_hold_them():
    observer = InfoKeysObserver(("score", "tile", "never"))
    see(observer, answer((0, 0), final_info=(None, {"score": 10, "other": 1})))
    see(observer, answer((0, 0), final_info=({"score": np.float32(20), "tile": 4}, {})))
    see(observer, answer((0, 0), final_info=({"score": np.array([60])}, None)))
    assert observer.metrics() == {"info/score": 30.0, "info/tile": 4.0}
    assert observer.metrics() == {}


def test_one_info_key_may_be_a_plain_text():
    observer = InfoKeysObserver("score")
    see(observer, answer((0, 0), final_info=({"score": 3, "s": 9}, None)))
    assert observer.metrics() == {"info/score": 3.0}


@pytest.mark.parametrize("value", ["high", None, [1, 2], {}])
def test_an_info_key_that_holds_no_number_is_named(value):
    observer = InfoKeysObserver(("score",))
    with pytest.raises(UserError, match="info key 'score' holds .*: allowed is a number"):
        see(observer, answer((0, 0), final_info=({"score": value}, None)))
