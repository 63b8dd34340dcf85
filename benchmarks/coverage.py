"""How often a 95 % interval over a few seeds holds the true mean, for each kind that we offer.

    python benchmarks/coverage.py

Scores are drawn from distributions of known mean that look like those of training runs: normal,
skewed, bounded with many runs at the bound, and bimodal with some runs that never learn. Writes
mujax_pipe/analysis/coverage.csv, from which captions tell what an interval is worth, and draws it.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import scipy.stats

from mujax_pipe.analysis.coverage import CONFIDENCE, PATH
from mujax_pipe.analysis.intervals import INTERVALS, NAMES

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "docs" / "figures" / "coverage.png"
SEEDS = (2, 3, 5, 10, 20)


@dataclasses.dataclass(frozen=True)
class Settings:
    interval: str = ""
    confidence: float = CONFIDENCE
    bootstrap_samples: int = 1000
    bootstrap_seed: int = 0


def at_a_bound(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Scores of an environment that ends at 500: normal about 490, cut there."""
    return np.minimum(generator.normal(490, 20, shape), 500)


def two_kinds(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Four runs of five learn, to about 1; the others stay at about 0."""
    return generator.normal(0, 0.05, shape) + (generator.random(shape) < 0.8)


# The cut normal: E min(X, b) = m + (b - m)(1 - P(z)) - s p(z) with z = (b - m) / s, m P(z) apart.
_Z = (500 - 490) / 20
_CUT = (
    490 * scipy.stats.norm.cdf(_Z) - 20 * scipy.stats.norm.pdf(_Z) + 500 * scipy.stats.norm.sf(_Z)
)

SCORES: dict[str, tuple[Callable[[np.random.Generator, tuple[int, ...]], np.ndarray], float]] = {
    "normal": (lambda generator, shape: generator.normal(0, 1, shape), 0.0),
    "skewed": (lambda generator, shape: -generator.exponential(1, shape), -1.0),
    "at a bound": (at_a_bound, float(_CUT)),
    "bimodal": (two_kinds, 0.8),
}


def measure(runs: int) -> pd.DataFrame:
    """Returns a row for each kind of interval, distribution and number of seeds."""
    rows = []
    for scores, (draw, mean) in SCORES.items():
        for seeds in SEEDS:
            samples = draw(np.random.default_rng(seeds), (seeds, runs))
            widths = {}
            for kind, bounds in INTERVALS.items():
                # In parts, for resamples are many.
                parts = [
                    bounds(samples[:, start : start + 100], Settings(bootstrap_seed=start))
                    for start in range(0, runs, 100)
                ]
                low = np.concatenate([part[0] for part in parts])
                high = np.concatenate([part[1] for part in parts])
                widths[kind] = np.mean(high - low)
                held = np.mean((low <= mean) & (mean <= high))
                width = widths[kind] / widths["t"]
                rows.append((kind, scores, seeds, held, width))
                print(f"{kind:12s} {scores:10s} {seeds:2d} seeds: {held:.1%}, width {width:.2f}")
    columns = ["interval", "scores", "seeds", "coverage", "width"]
    return pd.DataFrame(rows, columns=columns)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draws coverage against the number of seeds, one panel a distribution."""
    from mujax_pipe.analysis.style import looks, rendered

    kinds = looks(NAMES, NAMES)

    def figure() -> mpl.figure.Figure:
        figure = mpl.figure.Figure(figsize=(7.0, 2.3), layout="constrained")
        panels = figure.subplots(1, len(SCORES), sharey=True)
        for axes, (scores, rows) in zip(panels, table.groupby("scores", sort=False), strict=True):
            axes.axhline(100 * CONFIDENCE, color="black", linewidth=0.6)
            for kind, line in rows.groupby("interval", sort=False):
                look = kinds[kind]
                axes.plot(
                    line["seeds"], 100 * line["coverage"], color=look.colour, linestyle=look.line,
                    marker=look.marker, markersize=3, label=look.name,
                )  # fmt: skip
            axes.set(title=scores, xscale="log", ylim=(30, 102))
            axes.set_xticks(SEEDS, [str(seeds) for seeds in SEEDS])
            axes.minorticks_off()
        figure.supxlabel("Seeds", fontsize=8)
        panels[0].set_ylabel("Held the mean, %")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4)
        return figure

    path.parent.mkdir(exist_ok=True)
    path.write_bytes(rendered(figure, 200)["png"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="simulated experiments a row")
    parser.add_argument("--draw-only", action="store_true", help="draw what was measured before")
    arguments = parser.parse_args()
    if not arguments.draw_only:
        measure(arguments.runs).to_csv(PATH, index=False, float_format="%.4g")
    draw(pd.read_csv(PATH), FIGURE)


if __name__ == "__main__":
    main()
