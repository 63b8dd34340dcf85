"""Estimates across environments: by hand, and against rliable."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pandas as pd
import pytest

from mujax_pipe.analysis import across


def settings(samples: int = 2000, seed: int = 0):
    return types.SimpleNamespace(
        interval="t", confidence=0.95, bootstrap_samples=samples, bootstrap_seed=seed
    )


def scores(**by_algo: dict[str, list[float]]) -> pd.DataFrame:
    rows = [
        {"algo": algo, "env": env, "seed": seed, "mean": mean, "normalised": mean}
        for algo, envs in by_algo.items()
        for env, means in envs.items()
        for seed, mean in enumerate(means)
    ]
    return pd.DataFrame(rows)


RANDOM = np.random.default_rng(0).uniform(size=(2, 10, 3))
TWO = scores(
    gmz={f"env{i}": RANDOM[0, :, i].tolist() for i in range(3)},
    smz={f"env{i}": RANDOM[1, :, i].tolist() for i in range(3)},
)


def test_the_anchors_become_0_and_1() -> None:
    frame = scores(gmz={"a": [-10.0, 0.0, 10.0, 20.0]})
    normalised = across.normalised(frame, {"a": (0.0, 10.0)})["normalised"]
    assert normalised.tolist() == [-1.0, 0.0, 1.0, 2.0]


def test_metrics_by_hand() -> None:
    frame = scores(gmz={"a": [0.0, 1.0], "b": [0.5, 1.5]})
    found = across.aggregate_metrics(frame, settings()).set_index("metric")
    # Means of runs by environment are 0.5 and 1; the middle half of 0, 0.5, 1, 1.5 is 0.5 and 1;
    # short of 1 are 1, 0.5, 0 and 0.
    assert found["value"].to_dict() == {
        "Median": 0.75,
        "IQM": 0.75,
        "Mean": 0.75,
        "Optimality gap": 0.375,
    }
    # The mean is least where both environments draw their worst run twice.
    assert found.loc["Mean", ["low", "high"]].tolist() == [0.25, 1.25]


def test_metrics_and_their_intervals_are_rliable_s() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arch's, on the way rliable calls it
        from rliable import library

        found = across.aggregate_metrics(TWO, settings(20_000)).query("algo == 'gmz'")
        names = list(across.METRICS)
        points, intervals = library.get_interval_estimates(
            {"gmz": RANDOM[0]},
            lambda runs: np.array([across.METRICS[name](runs) for name in names]),
            reps=20_000,
        )
    assert found["value"].tolist() == pytest.approx(points["gmz"].tolist(), rel=1e-12)
    bounds = found[["low", "high"]].to_numpy().T
    width = (bounds[1] - bounds[0]).max()
    assert bounds == pytest.approx(intervals["gmz"], abs=0.05 * width)


def test_profiles_are_rliable_s() -> None:
    from rliable import library

    found = across.performance_profiles(TWO, settings(50)).query("algo == 'smz'")
    theirs, _ = library.create_performance_profile({"smz": RANDOM[1]}, across.THRESHOLDS, reps=10)
    assert found["share"].tolist() == pytest.approx(theirs["smz"].tolist())
    assert (found["low"] <= found["share"]).all()
    assert (found["share"] <= found["high"]).all()


def test_improvement_by_hand_and_as_rliable_has_it() -> None:
    from rliable import metrics

    frame = scores(gmz={"a": [1.0, 3.0], "b": [2.0]}, smz={"a": [2.0, 3.0], "b": [1.0]})
    found = across.probability_of_improvement(frame, settings()).set_index("env")
    # In a: 1 loses twice, 3 wins once and draws once; in b the one run wins.
    assert found["probability"].to_dict() == {"a": 0.375, "b": 1.0, "all": 0.6875}
    assert found.loc["b", ["low", "high"]].isna().all()
    mean = across.probability_of_improvement(TWO, settings(20)).set_index("env").loc["all"]
    expected = metrics.probability_of_improvement(RANDOM[0], RANDOM[1])
    assert mean["probability"] == pytest.approx(expected)
    assert mean["low"] < mean["probability"] < mean["high"]


def test_seeds_that_some_environments_lack_are_left_out_and_named() -> None:
    frame = scores(gmz={"a": [0.0, 1.0, 9.0], "b": [0.0, 1.0]})
    assert across.runs_by_tasks(frame, "gmz").tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert across.uneven_cells(frame) == [
        "Across environments gmz has fewer seeds: b has no seed 2."
    ]
    assert across.uneven_cells(TWO) == []


def test_algorithms_are_compared_over_the_same_environments_alone() -> None:
    frame = scores(gmz={"a": [0.0, 1.0], "b": [9.0, 9.0]}, smz={"a": [0.0, 1.0, 2.0]})
    found = across.aggregate_metrics(frame, settings(10)).set_index(["algo", "metric"])
    assert found.loc[("gmz", "Mean"), ["environments", "seeds", "value"]].tolist() == [1, 2, 0.5]
    assert found.loc[("smz", "Mean"), ["environments", "seeds", "value"]].tolist() == [1, 3, 1.0]
    assert across.uneven_cells(frame) == [
        "Across environments b does not count: not of all algorithms."
    ]


def test_one_algorithm_has_nothing_to_be_compared_with() -> None:
    assert across.probability_of_improvement(TWO.query("algo == 'gmz'"), settings()).empty


def test_estimates_depend_on_their_seed_alone() -> None:
    first = across.aggregate_metrics(TWO, settings(100))
    np.random.seed(5)
    assert across.aggregate_metrics(TWO, settings(100)).equals(first)
    assert not across.aggregate_metrics(TWO, settings(100, seed=1)).equals(first)
