import jax
import numpy as np
import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import evaluation
from mujax_pipe.training.evaluation import Evaluator, Selection
from mujax_pipe.training.keys import Episodes, episode_seed
from tests.fakes import SPEC, Linear, Walk, tiny_config

PARAMS = {"w": np.array([2.0, -1.0], np.float32)}
STEP = np.int32(0)


def make_evaluator(num_episodes=5, family=Episodes.FINAL, metric="episode_return", **settings):
    made = []

    def factory(index):
        made.append(Walk(**settings))
        return made[-1]

    algorithm = Linear(tiny_config(), SPEC)
    return Evaluator(algorithm, factory, family, num_episodes, metric), made


@pytest.mark.parametrize("family", [Episodes.SELECTION, Episodes.FINAL])
def test_the_episodes_of_the_family_are_played_in_the_order_of_their_numbers(family):
    evaluator, _ = make_evaluator(family=family, length=(1, 6))
    played = evaluator.play(PARAMS, STEP)
    assert played.seed.tolist() == [episode_seed(family, number) for number in range(5)]
    for number, seed in enumerate(played.seed.tolist()):
        env, total, ended, length = Walk(length=(1, 6)), 0.0, False, 0
        env.reset(seed=seed)
        while not ended:
            _, reward, ended, _, _ = env.step(0)
            total, length = total + reward, length + 1
        assert played.length[number] == length
        assert played.episode_return[number] == pytest.approx(total, rel=1e-6)
    np.testing.assert_array_equal(played.score, played.episode_return)


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_how_many_play_side_by_side_changes_nothing(monkeypatch, width):
    wide = make_evaluator(7, length=(1, 6))[0].play(PARAMS, STEP)
    monkeypatch.setattr(evaluation, "SIDE_BY_SIDE", width)
    evaluator, made = make_evaluator(7, length=(1, 6))
    narrow = evaluator.play(PARAMS, STEP)
    assert len(made) == width
    for name in ("seed", "episode_return", "length", "score"):
        np.testing.assert_array_equal(getattr(wide, name), getattr(narrow, name))


def test_every_call_plays_the_same_episodes():
    evaluator, _ = make_evaluator(length=(1, 6))
    first, second = evaluator.play(PARAMS, STEP), evaluator.play(PARAMS, STEP)
    np.testing.assert_array_equal(first.seed, second.seed)
    np.testing.assert_array_equal(first.episode_return, second.episode_return)


def test_the_policy_plays_without_noise_on_legal_actions():
    evaluator, made = make_evaluator(3, masked=True, length=4)
    evaluator.play(PARAMS, STEP)
    assert [env.actions[:4] for env in made] == [[0, 1, 2, 0]] * 3


def test_a_metric_of_the_last_info_is_scored():
    evaluator, _ = make_evaluator(metric="time", length=(1, 6))
    played = evaluator.play(PARAMS, STEP)
    np.testing.assert_array_equal(played.score, played.length)
    assert (played.score != played.episode_return).all()


def test_a_metric_that_info_lacks_is_refused_with_what_it_holds():
    evaluator, _ = make_evaluator(metric="speed")
    with pytest.raises(UserError, match="score_metric is 'speed': .* holds time; allowed are"):
        evaluator.play(PARAMS, STEP)


def test_the_global_random_state_is_left_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    make_evaluator()[0].play(PARAMS, STEP)
    np.testing.assert_array_equal(before, np.random.get_state()[1])


def test_close_closes_the_environments():
    evaluator, made = make_evaluator()
    evaluator.close()
    assert all(env.closed for env in made)


# Selection.


def updates(scores, **settings):
    selection = Selection(config=EvaluationConfig(**settings))
    best = [selection.update(score, 10 * i, 100 * i) for i, score in enumerate(scores)]
    return selection, best


def test_the_best_score_is_kept_with_its_step():
    selection, best = updates([1.0, 3.0, 2.0])
    assert best == [True, True, False]
    assert (selection.best_score, selection.best_step, selection.best_env_steps) == (3.0, 10, 100)


def test_negative_scores_are_compared_as_numbers():
    assert updates([-5.0, -7.0, -1.0])[1] == [True, False, True]


def test_of_equal_scores_the_later_wins():
    selection, best = updates([500.0, 500.0, 499.0, 500.0])
    assert best == [True, True, False, True]
    assert selection.best_step == 30


def test_the_smoothed_score_picks_the_best():
    """0.5 smoothing of 0, 8, 0, 6 is 0, 4, 2, 4."""
    selection, best = updates([0.0, 8.0, 0.0, 6.0], ema=0.5)
    assert best == [True, True, False, True]
    assert (selection.smoothed, selection.best_score) == (4.0, 4.0)


def stops(scores, **settings):
    selection = Selection(config=EvaluationConfig(**settings))
    decisions = []
    for i, score in enumerate(scores):
        selection.update(score, i, i)
        decisions.append(selection.should_stop(i))
    return decisions


@pytest.mark.parametrize(
    ("scores", "settings", "expected"),
    [
        ([1, 1, 1, 1], {}, [False] * 4),
        ([1, 1, 1, 1], {"patience": 2}, [False, False, True, True]),
        ([1, 2, 1, 1], {"patience": 2}, [False, False, False, True]),
        ([1, 0, 2, 0, 0], {"patience": 2}, [False, False, False, False, True]),
        ([1, 1, 1, 1], {"patience": 1, "min_steps": 3}, [False, False, False, True]),
        ([1, 1.4, 3], {"patience": 1, "min_delta": 0.5}, [False, True, False]),
    ],
)
def test_patience(scores, settings, expected):
    assert stops(scores, **settings) == expected


def test_small_gains_that_add_up_are_a_gain():
    """Each is below min_delta, together they are three of it: the run is not stale."""
    assert stops([0.0, 0.4, 0.8, 1.2, 1.6], patience=3, min_delta=0.5) == [False] * 5


def test_the_first_score_is_the_best_so_far_whatever_it_is():
    assert updates([-1e30])[1] == [True]


def test_jit_is_compiled_once_for_all_calls():
    evaluator, _ = make_evaluator()
    with jax.log_compiles(False):
        evaluator.play(PARAMS, STEP)
        evaluator.play(PARAMS, np.int32(7))
    assert evaluator._search._cache_size() == 1
