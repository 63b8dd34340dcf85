"""Intervals over seeds: by hand, and what they are worth."""

from __future__ import annotations

import types

import numpy as np
import pytest
import scipy.stats

from mujax_pipe.analysis import coverage, intervals


def settings(interval: str, **fields):
    values = {"confidence": 0.95, "bootstrap_samples": 2000, "bootstrap_seed": 0, **fields}
    return types.SimpleNamespace(interval=interval, **values)


def test_student_s_interval_by_hand() -> None:
    # 1, 2, 3: mean 2, standard error 1 / sqrt(3), and t(0.975, 2) = 4.3027.
    low, high = intervals.interval(np.array([1.0, 2.0, 3.0]), settings("t"))
    assert [low, high] == pytest.approx([2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5], rel=1e-5)


def test_bca_is_scipy_s_and_corrects_skew() -> None:
    samples = np.random.default_rng(0).exponential(size=12)
    low, high = intervals.interval(samples, settings("bca"))
    expected = scipy.stats.bootstrap(
        (samples,), np.mean, n_resamples=2000, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    assert [low, high] == pytest.approx([expected.low, expected.high], rel=1e-12)
    plain_low, plain_high = intervals.interval(samples, settings("percentile"))
    assert (low, high) > (plain_low, plain_high)


def test_the_studentised_bootstrap_is_t_for_normal_scores() -> None:
    samples = np.random.default_rng(2).normal(size=40)
    ours = intervals.interval(samples, settings("studentised", bootstrap_samples=20_000))
    theirs = intervals.interval(samples, settings("t"))
    width = theirs[1] - theirs[0]
    assert np.asarray(ours) == pytest.approx(np.asarray(theirs), abs=0.12 * width)


def test_the_studentised_bootstrap_of_three_seeds_is_unbounded() -> None:
    low, high = intervals.interval(np.array([1.0, 2.0, 4.0]), settings("studentised"))
    assert (low, high) == (-np.inf, np.inf)


@pytest.mark.parametrize("kind", intervals.INTERVALS)
def test_equal_scores_have_no_width_and_one_has_no_interval(kind: str) -> None:
    assert intervals.interval(np.full(4, 500.0), settings(kind)) == (500.0, 500.0)
    assert np.isnan(intervals.interval(np.array([500.0]), settings(kind))).all()


@pytest.mark.parametrize("kind", intervals.INTERVALS)
def test_columns_are_computed_each_for_itself(kind: str) -> None:
    samples = np.random.default_rng(3).normal(size=(6, 3))
    together = intervals.interval(samples, settings(kind))
    alone = [intervals.interval(samples[:, i], settings(kind)) for i in range(3)]
    assert pytest.approx(np.asarray(alone), rel=1e-12) == np.asarray(together).T


def test_every_kind_has_a_name_and_a_measured_coverage() -> None:
    assert set(intervals.INTERVALS) == set(intervals.NAMES)
    for kind in intervals.INTERVALS:
        for seeds in (2, 3, 5, 10, 20):
            low, high = coverage.coverage(kind, seeds, 0.95)
            assert 0 <= low <= high <= 1


def test_coverage_is_that_of_the_next_smaller_number_of_seeds() -> None:
    assert coverage.coverage("t", 7, 0.95) == coverage.coverage("t", 5, 0.95)
    assert coverage.coverage("t", 1, 0.95) is None
    assert coverage.coverage("t", 5, 0.9) is None


@pytest.mark.parametrize("kind", ["t", "percentile"])
def test_the_published_coverage_comes_out_again(kind: str) -> None:
    """Of normal scores of five seeds, up to the noise of fewer simulated experiments."""
    samples = np.random.default_rng(1).normal(size=(5, 1000))
    low, high = intervals.interval(samples, settings(kind, bootstrap_samples=500))
    held = np.mean((low <= 0) & (high >= 0))
    table = coverage._measured()
    (published,) = table.query("interval == @kind and scores == 'normal' and seeds == 5")[
        "coverage"
    ]
    assert held == pytest.approx(published, abs=0.04)


def test_student_s_interval_of_the_interquartile_mean_is_scipy_s() -> None:
    samples = np.random.default_rng(4).exponential(size=8)
    ours = intervals.interquartile_interval(samples, settings("t"))
    theirs = scipy.stats.mstats.trimmed_mean_ci(samples, limits=(0.25, 0.25), alpha=0.05)
    assert np.asarray(ours) == pytest.approx(np.asarray(theirs), rel=1e-9)
    # Nothing is cut from three.
    few = samples[:3]
    expected = intervals.interval(few, settings("t"))
    assert intervals.interquartile_interval(few, settings("t")) == pytest.approx(expected)


@pytest.mark.parametrize("kind", intervals.INTERVALS)
def test_every_kind_has_an_interval_of_the_interquartile_mean(kind: str) -> None:
    samples = np.random.default_rng(5).normal(size=12)
    low, high = intervals.interquartile_interval(samples, settings(kind))
    assert low < intervals.interquartile_mean(samples) < high
