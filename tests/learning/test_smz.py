"""Whether Stochastic MuZero learns chance, and to act on it."""

import numpy as np
import pytest

from mujax_pipe.config import SMZConfig
from tests.fakes import Corridor
from tests.learning.toys import Cards, Wheel, train


def config(**settings):
    small = {
        "num_simulations": 8,
        "unroll_steps": 3,
        "bootstrap_steps": 3,
        "batch_size": 32,
        "num_envs": 4,
        "replay_ratio": 4.0,
        "min_replay_size": 200,
        "max_replay_size": 10_000,
        "num_learner_steps": 300,
        "learning_rate": 0.003,
        "discount": 0.95,
    }
    return SMZConfig(**{**small, **settings}).with_size("XS")


@pytest.mark.slow
def test_without_chance_one_outcome_is_expected(tmp_path):
    """Of each afterstate: different transitions may keep different codes, nothing merges them."""
    metrics, _ = train(str(tmp_path), config(), Corridor)
    assert metrics[0]["chance_perplexity"] > 3.0
    assert metrics[-1]["chance_perplexity"] < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("num_outcomes", [3, 4])
def test_equally_likely_outcomes_are_expected_equally(tmp_path, num_outcomes):
    """An outcome may have several codes, one for each state before it, so usage is k or more."""
    metrics, _ = train(str(tmp_path), config(), lambda: Wheel(num_outcomes))
    assert metrics[-1]["chance_perplexity"] == pytest.approx(num_outcomes, rel=0.15)
    assert metrics[-1]["code_perplexity"] > 0.85 * num_outcomes


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_card_is_drawn_and_looked_at(tmp_path, seed):
    """One-step targets from fresh searches: the noise of acting stays out of the values."""
    num = 400
    settings = config(
        num_simulations=16,
        unroll_steps=2,
        bootstrap_steps=1,
        reanalyze_ratio=1.0,
        discount=1.0,
        num_learner_steps=500,
        dirichlet_fraction=0.5,
        temperatures=(1.0,),
    )
    _, score = train(str(tmp_path), settings, Cards, seed=seed, num_episodes=num)
    best = np.maximum(Cards.CARDS, Cards.BACK)
    assert abs(score - Cards.OPTIMUM) < 3.0 * best.std() / np.sqrt(num)
