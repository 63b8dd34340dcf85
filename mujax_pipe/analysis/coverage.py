"""What an interval over a few seeds is worth, as measured by `benchmarks/coverage.py`."""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

PATH = Path(__file__).with_name("coverage.csv")
CONFIDENCE = 0.95  # at which it was measured


def coverage(interval: str, seeds: int, confidence: float) -> tuple[float, float] | None:
    """Returns how often an interval held the true mean: in the worst case simulated, and the best.

    Args:
      interval: kind, as `analysis.interval`.
      seeds: how many; the next smaller number that was measured stands for it.
      confidence: that the interval was made for.

    Returns:
      Two shares; None where nothing was measured: another confidence, or one seed.
    """
    table = _measured()
    rows = table[(table["interval"] == interval) & (table["seeds"] <= seeds)]
    if confidence != CONFIDENCE or rows.empty:
        return None
    shares = rows[rows["seeds"] == rows["seeds"].max()]["coverage"]
    return float(shares.min()), float(shares.max())


@functools.cache
def _measured() -> pd.DataFrame:
    return pd.read_csv(PATH)
