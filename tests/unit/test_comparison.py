"""Two versions of the results: by hand, and through git."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from rich.console import Console

from mujax_pipe import analysis
from mujax_pipe.analysis.comparison import compare, differences, drawn, scores_of
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles
from tests.unit.finished_cells import make_params, write_cell

PARAMS = make_params()


def scores(env: str, means: list[float], algo: str = "gmz") -> pd.DataFrame:
    return pd.DataFrame(
        [{"algo": algo, "env": env, "seed": i, "mean": mean} for i, mean in enumerate(means)]
    )


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([1.0, 2.0, 3.0], [1.1, 2.1, 3.1], "within"),
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], "better"),
        ([2.0, 2.1, 2.2], [1.0, 1.1, 1.2], "worse"),
        ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], "same"),
        ([500.0, 500.0], [490.0, 490.0], "worse"),
        ([1.0], [2.0, 3.0], "unknown"),
    ],
)
def test_verdicts(first: list[float], second: list[float], verdict: str) -> None:
    row = differences(scores("a", first), scores("a", second), 0.95).iloc[0]
    assert row["verdict"] == verdict
    assert row["difference"] == pytest.approx(np.mean(second) - np.mean(first))


def test_the_interval_is_welch_s() -> None:
    a, b = [1.0, 2.0, 4.0], [3.0, 9.0, 4.0, 8.0]
    row = differences(scores("a", a), scores("a", b), 0.9).iloc[0]
    expected = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.9)
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))


def test_only_what_both_have_is_compared() -> None:
    second = pd.concat([scores("a", [1.0, 2.0]), scores("b", [1.0, 2.0])])
    assert differences(scores("a", [1.0, 3.0]), second, 0.95)["env"].tolist() == ["a"]


def write(root: Path, shift: float) -> None:
    for cell in PARAMS.cells("all"):
        moved = shift if cell.env == "cartpole" else 0.0
        write_cell(root, cell, returns=[1.0 + moved + 0.1 * cell.seed, 2.0 + moved])
    analysis.aggregate(PARAMS, "all", root)


@pytest.fixture
def two_versions(tmp_path: Path) -> Path:
    """A repository whose HEAD has one version, and whose experiment `more` has a better one."""

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init", "--quiet", "-b", "main")
    for shift, name in ((0.0, "first"), (5.0, "second")):
        write(tmp_path, shift)
        git("add", ".")
        git("commit", "--quiet", "-m", name)
    git("update-ref", "refs/exps/ab/abcdef/more", "HEAD")
    git("reset", "--quiet", "--hard", "HEAD~1")
    return tmp_path


def test_a_revision_is_compared_with_an_experiment(two_versions: Path, tmp_path: Path) -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    out = tmp_path / "out"
    compare(PARAMS, "main", "more", out, two_versions, console)
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert any(
        line.startswith("CartPole-v1 Gumbel MuZero 1.55 6.55 5.00")
        and line.endswith("better by more than its interval")
        for line in lines
    )
    assert any(line.startswith("Blackjack-v1") and line.endswith("same scores") for line in lines)
    assert {path.name for path in out.iterdir()} == {
        f"comparison.{suffix}" for suffix in ("csv", "pdf", "svg", "png")
    }
    assert scores_of("workspace", two_versions).equals(scores_of("HEAD", two_versions))
    # Versions of an environment that params.yaml no longer has, with columns of another day.
    path = AnalysisFiles(root=two_versions).scores
    path.write_text("algo,env,seed,old,mean\ngmz,gone,0,x,1.0\ngmz,gone,1,x,2.0\n")
    compare(PARAMS, "workspace", "workspace", out, two_versions, console)
    assert "gone" in console.export_text()


def test_what_is_not_there_is_named(two_versions: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'mroe' is no git revision and no DVC experiment; .* more"):
        scores_of("mroe", two_versions)
    AnalysisFiles(root=two_versions).scores.unlink()
    with pytest.raises(UserError, match=r"workspace has no results/tables/scores.csv"):
        scores_of("workspace", two_versions)


def test_the_figure_has_a_panel_an_environment_and_a_line_at_none() -> None:
    found = differences(scores("cartpole", [1.0, 2.0]), scores("cartpole", [2.0, 4.0]), 0.95)
    from tests.unit.test_figures import captions

    figure = drawn(found, "b minus a", captions("gmz"))
    (axes,) = figure.axes
    assert axes.get_title() == "CartPole-v1"
    assert axes.lines[0].get_xdata() == [0, 0]
    assert axes.lines[1].get_xdata() == [1.5]
