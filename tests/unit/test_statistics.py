"""Estimates and intervals over seeds: by hand, and against rliable."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pandas as pd
import pytest
from rliable import metrics

from mujax_pipe.analysis import intervals, statistics


def settings(confidence: float = 0.95, samples: int = 4000, seed: int = 0):
    return types.SimpleNamespace(
        interval="percentile", confidence=confidence, bootstrap_samples=samples, bootstrap_seed=seed
    )


def scores(**by_env: list[float]) -> pd.DataFrame:
    rows = [
        {"algo": "gmz", "env": env, "seed": seed, "mean": mean, "last_mean": mean - 1}
        for env, means in by_env.items()
        for seed, mean in enumerate(means)
    ]
    return pd.DataFrame(rows)


# Resamples of {0, 0, 0, 4} have mean k with k ~ Binomial(4, 1/4): P(k <= 2) = 0.949 and
# P(k <= 3) = 0.996, so the 97.5 % quantile is 3 and the 99.9 % quantile is 4; P(k = 0) = 0.316
# makes the 2.5 % quantile 0.
# Resamples of {0, 6} have means 0, 3, 6 with probabilities 1/4, 1/2, 1/4.
# Resamples of {0, 3, 6} are all zero with probability 1/27 = 3.7 % > 2.5 %.
@pytest.mark.parametrize(
    ("samples", "confidence", "bounds"),
    [
        ([0, 0, 0, 4], 0.95, (0, 3)),
        ([0, 0, 0, 4], 0.998, (0, 4)),
        ([0, 6], 0.95, (0, 6)),
        ([0, 6], 0.4, (3, 3)),
        ([0, 3, 6], 0.95, (0, 6)),
        ([5, 5, 5], 0.95, (5, 5)),
    ],
)
def test_interval_by_hand(samples, confidence, bounds) -> None:
    assert statistics.interval(np.array(samples, float), settings(confidence)) == bounds


def test_one_seed_has_no_interval() -> None:
    low, high = statistics.interval(np.array([[1.0, 2.0]]), settings())
    assert np.isnan([low, high]).tolist() == [[True, True], [True, True]]
    row = statistics.final_scores(scores(cartpole=[7.0]), settings()).iloc[0]
    assert (row["seeds"], row["mean"], row["iqm"]) == (1, 7.0, 7.0)
    assert row[["low", "high", "iqm_low", "iqm_high"]].isna().all()
    assert row["last"] == 6.0


def test_seeds_are_resampled_whole() -> None:
    """A column that is twice another has twice its interval: one draw serves all columns."""
    first = np.random.default_rng(0).normal(size=7)
    low, high = statistics.interval(np.stack([first, 2 * first], axis=1), settings())
    assert low[1] == pytest.approx(2 * low[0], rel=1e-12)
    assert high[1] == pytest.approx(2 * high[0], rel=1e-12)


def test_interval_depends_on_its_seed_alone(monkeypatch) -> None:
    samples = np.random.default_rng(0).normal(size=9)
    first = statistics.interval(samples, settings(samples=100))
    np.random.seed(123)
    assert statistics.interval(samples, settings(samples=100)) == first
    assert statistics.interval(samples, settings(samples=100, seed=1)) != first
    monkeypatch.setattr(intervals, "_BATCH_NUMBERS", 50)
    assert statistics.interval(samples, settings(samples=100)) == first


def test_iqm_by_hand() -> None:
    # A quarter of 8 is 2: what is left of 0, 0, 1, 2, 3, 4, 90, 90 is 1, 2, 3, 4.
    samples = np.array([90.0, 0, 1, 4, 3, 0, 2, 90])
    assert intervals.interquartile_mean(samples) == 2.5
    assert intervals.interquartile_mean(np.array([1.0, 2, 9])) == 4.0  # nothing to cut


def test_estimates_are_rliable_s() -> None:
    """The percentile interval of rliable on one task, up to the noise of its own draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arch's, on the way rliable calls it
        from rliable import library

        samples = np.random.default_rng(3).gamma(2.0, size=10)
        row = statistics.final_scores(scores(e=samples.tolist()), settings(samples=20_000)).iloc[0]
        for name, aggregate in (
            ("mean", metrics.aggregate_mean),
            ("iqm", metrics.aggregate_iqm),
        ):
            points, intervals = library.get_interval_estimates(
                {"gmz": samples[:, None]}, lambda x, f=aggregate: np.array([f(x)]), reps=20_000
            )
            low, high = ("low", "high") if name == "mean" else ("iqm_low", "iqm_high")
            assert row[name] == pytest.approx(points["gmz"][0], rel=1e-12)
            width = row[high] - row[low]
            assert [row[low], row[high]] == pytest.approx(
                intervals["gmz"][:, 0].tolist(), abs=0.04 * width
            )


def test_final_scores_keep_the_grid_s_order() -> None:
    frame = pd.concat(
        [scores(zebra=[1, 3], ant=[5, 5, 8]), scores(zebra=[2], ant=[4]).assign(algo="smz")]
    )
    table = statistics.final_scores(frame, settings())
    assert table[["env", "algo", "seeds"]].to_numpy().tolist() == [
        ["zebra", "gmz", 2],
        ["zebra", "smz", 1],
        ["ant", "gmz", 3],
        ["ant", "smz", 1],
    ]
    first = table.iloc[0]
    assert (first["mean"], first["low"], first["high"]) == (2, 1, 3)
    assert (first["min"], first["max"]) == (1, 3)


def test_an_interval_does_not_depend_on_the_other_cells() -> None:
    alone = statistics.final_scores(scores(a=[1.0, 4.0, 9.0, 11.0, 2.0]), settings())
    among = statistics.final_scores(
        scores(b=[3.0, 4.0, 4.5], a=[1.0, 4.0, 9.0, 11.0, 2.0]), settings()
    )
    assert among[among["env"] == "a"].to_numpy().tolist() == alone.to_numpy().tolist()


def curves(*seeds: dict[int, float]) -> pd.DataFrame:
    rows = [
        ("gmz", "cartpole", seed, steps, steps // 2, score)
        for seed, points in enumerate(seeds)
        for steps, score in points.items()
    ]
    columns = ["algo", "env", "seed", "step", "env_steps", "score"]
    return pd.DataFrame(rows, columns=columns)


def test_learning_curves_by_hand() -> None:
    band = statistics.learning_curves(curves({0: 1.0, 100: 2.0}, {0: 1.0, 100: 6.0}), settings())
    assert band.to_numpy().tolist() == [
        ["cartpole", "gmz", 0, 0, 2, 1.0, 1.0, 1.0],
        ["cartpole", "gmz", 100, 50, 2, 4.0, 2.0, 6.0],
    ]


def test_a_mean_curve_ends_with_its_first_seed() -> None:
    early = curves({0: 1.0, 100: 2.0}, {0: 1.0, 100: 6.0, 200: 50.0})
    assert statistics.learning_curves(early, settings())["env_steps"].tolist() == [0, 50]
    nothing_shared = curves({0: 1.0}, {50: 2.0})
    assert statistics.learning_curves(nothing_shared, settings()).empty


def test_two_evaluations_after_one_environment_step_both_count() -> None:
    pairs = curves({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.0, 1: 4.0, 2: 5.0})
    band = statistics.learning_curves(pairs, settings())
    assert band[["step", "env_steps"]].to_numpy().tolist() == [[0, 0], [1, 0], [2, 1]]
    assert band["iqm"].tolist() == [1.0, 3.0, 4.0]


def test_one_seed_has_a_curve_without_a_band() -> None:
    band = statistics.learning_curves(curves({0: 1.0, 100: 2.0}), settings())
    assert band["iqm"].tolist() == [1.0, 2.0]
    assert band[["low", "high"]].isna().all(axis=None)


def test_steps_to_a_score_by_hand() -> None:
    frame = curves({0: 1.0, 100: 5.0, 200: 4.0}, {0: 1.0, 100: 2.0, 200: 6.0}, {0: 1.0, 200: 2.0})
    row = statistics.steps_to_threshold(frame, {"cartpole": 5.0}).iloc[0].to_dict()
    assert (row["env"], row["algo"], row["threshold"]) == ("cartpole", "gmz", 5.0)
    assert (row["seeds"], row["reached"]) == (3, 2)
    # In environment steps; the third seed never gets there.
    assert (row["lowest"], row["median"]) == (50, 100)
    assert np.isnan(row["highest"])


def test_budgets_by_hand() -> None:
    rows = [("gmz", "a", seed, n, float(n + seed)) for seed in (0, 1) for n in (0, 8)]
    frame = pd.DataFrame(rows, columns=["algo", "env", "seed", "simulations", "mean"])
    found = statistics.by_budget(frame, settings())
    assert found.to_numpy().tolist() == [
        ["a", "gmz", 0, 2, 0.5, 0.0, 1.0, 0.0, 1.0],
        ["a", "gmz", 8, 2, 8.5, 8.0, 9.0, 8.0, 9.0],
    ]
