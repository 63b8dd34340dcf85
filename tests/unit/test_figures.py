"""The figures: what they show, and the same bytes everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import font_manager
from matplotlib.colors import to_hex

from mujax_pipe import analysis
from mujax_pipe.analysis import figures, figures_across, figures_search, statistics, style
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles, CellFiles
from tests.unit.finished_cells import bytes_below, make_params, run_elsewhere, write_cell

NAMES = {"gmz": "Gumbel MuZero", "smz": "Stochastic MuZero"}


def captions(*algos: str) -> style.Captions:
    return style.Captions(
        looks=style.looks(NAMES, algos),
        titles={"cartpole": "CartPole-v1", "blackjack": "Blackjack-v1"},
        confidence="95 %",
    )


def curves(algos=("gmz",), envs=("cartpole",), seeds=3) -> pd.DataFrame:
    rows = [
        (algo, env, seed, 10 * k, 1000 * k, 100.0 * k + 10 * seed)
        for algo in algos
        for env in envs
        for seed in range(seeds)
        for k in range(4)
    ]
    columns = ["algo", "env", "seed", "step", "env_steps", "score"]
    return pd.DataFrame(rows, columns=columns)


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    last = frame.groupby(["algo", "env", "seed"], as_index=False, sort=False).last()
    return last.assign(mean=last["score"], last_mean=last["score"])


def settings():
    return make_params().analysis


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def test_learning_curves_show_seeds_mean_and_interval() -> None:
    frame = curves(algos=["gmz", "smz"], envs=["cartpole", "blackjack"])
    band = statistics.learning_curves(frame, settings())
    figure = figures.learning_curves(frame, band, captions("gmz", "smz"))
    assert [axes.get_title() for axes in figure.axes] == ["CartPole-v1", "Blackjack-v1"]
    looks = captions("gmz", "smz").looks
    for axes in figure.axes:
        for look in looks.values():
            mine = [line for line in axes.lines if to_hex(line.get_color()) == look.colour.lower()]
            thin = [line for line in mine if line.get_linewidth() == 0.5]
            assert len(thin) == 3
            assert [line.get_ydata()[-1] for line in thin] == [300, 310, 320]
            (mean,) = (line for line in mine if line.get_linewidth() != 0.5)
            assert mean.get_xdata().tolist() == [0, 1000, 2000, 3000]
            assert mean.get_ydata().tolist() == [10, 110, 210, 310]
        edges = axes.collections[0].get_paths()[0].vertices
        assert (edges[:, 1].min(), edges[:, 1].max()) == (0, 320)
    shown = texts(figure)
    assert {"Gumbel MuZero (3 seeds)", "Stochastic MuZero (3 seeds)", "95 % interval"} <= set(shown)
    assert "Environment steps" in shown


def test_final_scores_show_each_seed_even_when_equal() -> None:
    frame = scores(curves(seeds=4)).assign(mean=500.0)
    estimates = statistics.final_scores(frame, settings())
    figure = figures.final_scores(frame, estimates, captions("gmz"))
    (axes,) = figure.axes
    dots = axes.collections[-1].get_offsets()
    assert dots[:, 0].tolist() == [500.0] * 4
    assert len(np.unique(dots[:, 1])) == 4
    low, high = axes.get_xlim()
    assert low < 500 < high
    assert "Gumbel MuZero\n(4 seeds)" in texts(figure)


def test_one_seed_is_said() -> None:
    frame = curves(seeds=1)
    band = statistics.learning_curves(frame, settings())
    shown = texts(figures.learning_curves(frame, band, captions("gmz")))
    assert "Gumbel MuZero (1 seed, no interval)" in shown
    assert not any("95 %" in text for text in shown)
    final = scores(frame)
    shown = texts(
        figures.final_scores(final, statistics.final_scores(final, settings()), captions("gmz"))
    )
    assert "Final score: each seed, mean" in shown


def test_an_algorithm_looks_alike_whichever_others_are_drawn() -> None:
    assert style.looks(NAMES, ["smz"])["smz"] == style.looks(NAMES, ["gmz", "smz"])["smz"]
    both = style.looks(NAMES, ["smz", "other"])
    assert both["other"].name == "other"
    for part in ("colour", "line", "marker"):
        assert len({getattr(look, part) for look in both.values()}) == 3


@pytest.mark.parametrize(("panels", "columns"), [(5, 3), (6, 3), (7, 4), (8, 4), (9, 3), (10, 4)])
def test_columns_leave_few_places_empty(panels: int, columns: int) -> None:
    assert style._columns(panels) == columns


def drawn_texts(figure) -> list:
    """Every text of a drawn figure; matplotlib keeps labels of ticks out of view, too."""
    found = [*figure.texts, figure._supxlabel, figure._supylabel]
    found += [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        found.append(axes.title)
        for axis in (axes.xaxis, axes.yaxis):
            found += [tick.label1 for tick in axis._update_ticks() if tick.label1.get_visible()]
    return list({id(text): text for text in found if text is not None and text.get_text()}.values())


def test_no_texts_overlap_in_a_wide_grid() -> None:
    envs = [f"env{k}" for k in range(10)]
    frame = curves(algos=["gmz", "smz"], envs=envs)
    frame["score"] = frame["score"] * -40  # long labels: thousands below zero
    final = scores(frame)
    words = style.Captions(
        looks=style.looks(NAMES, ["gmz"]),
        titles=dict.fromkeys(envs, "TwentyFortyEight-v0"),
        confidence="95 %",
    )
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(style._STYLE)
        for figure in (
            figures.learning_curves(frame, statistics.learning_curves(frame, settings()), words),
            figures.final_scores(final, statistics.final_scores(final, settings()), words),
        ):
            figure.draw_without_rendering()
            boxes = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure)]
            assert len(boxes) > 30
            overlaps = [
                (name, other)
                for k, (name, box) in enumerate(boxes)
                for other, its in boxes[k + 1 :]
                if box.overlaps(its)
            ]
            assert overlaps == []
            for name, box in boxes:
                assert figure.bbox.x0 <= box.x0, name
                assert box.x1 <= figure.bbox.x1, name


def test_titles_are_names_without_their_package(tmp_path: Path, monkeypatch) -> None:
    params = make_params(envs=["cartpole"])
    for cell in params.cells("all"):
        write_cell(tmp_path, cell)
    analysis.aggregate(params, "all", tmp_path)
    params.environments["cartpole"].id = "package/Name-v0"
    drawn = []
    monkeypatch.setattr(figures, "rendered", lambda draw, dpi: drawn.append(draw()) or {})
    analysis.plot(params, "all", tmp_path, ["learning_curves", "final_scores"])
    assert [figure.axes[0].get_title() for figure in drawn] == ["Name-v0", "Name-v0"]


def test_plot_reads_the_tables_and_not_the_cells(tmp_path: Path) -> None:
    params = make_params()
    for cell in params.cells("all"):
        write_cell(tmp_path, cell)
    analysis.aggregate(params, "all", tmp_path)
    for cell in params.cells("all"):
        CellFiles(cell, tmp_path).curve.unlink()
    analysis.plot(params, "all", tmp_path)
    files = AnalysisFiles("all", tmp_path)
    made = {path.name for path in (*files.figures, *files.data)}
    assert set(bytes_below(files.directory / "figures")) == made
    with pytest.raises(UserError, match="figure 'pie' is unknown: allowed are learning_curves, "):
        analysis.plot(params, "all", tmp_path, ["pie"])
    files.curves.unlink()
    with pytest.raises(UserError, match=r"curves.csv is missing"):
        analysis.plot(params, "all", tmp_path)


def test_files_hold_true_type_fonts_and_no_clock_or_version() -> None:
    frame = curves()
    band = statistics.learning_curves(frame, settings())
    draw = lambda: figures.learning_curves(frame, band, captions("gmz"))
    low, high = style.rendered(draw, 50), style.rendered(draw, 100)
    pdf, svg, png = low["pdf"], low["svg"], low["png"]
    assert b"/CIDFontType2" in pdf
    assert b"/Type3" not in pdf
    assert b"DejaVuSans" in pdf
    assert not re.search(rb"CreationDate|ModDate|[Mm]atplotlib", pdf)
    assert not re.search(rb"dc:date|Matplotlib|\d{4}-\d\d-\d\d", svg)
    assert svg == style.rendered(draw, 50)["svg"]
    assert not re.search(rb"tEXt|tIME|iTXt|[Mm]atplotlib", png)
    assert len(high["png"]) > len(png)


def test_the_font_is_the_one_that_comes_with_matplotlib() -> None:
    found = Path(font_manager.findfont("DejaVu Sans", fallback_to_default=False))
    assert found.is_relative_to(mpl.get_data_path())


def test_drawing_leaves_the_user_s_settings_alone() -> None:
    frame = curves()
    with mpl.rc_context({"font.size": 23.0}):
        style.rendered(
            lambda: figures.final_scores(
                scores(frame), statistics.final_scores(scores(frame), settings()), captions("gmz")
            ),
            50,
        )
        assert mpl.rcParams["font.size"] == 23.0


def test_the_same_bytes_in_other_processes(tmp_path: Path) -> None:
    one, two = (run_elsewhere(tmp_path, number, "figures") for number in (0, 1))
    names = {name for name in one if name.startswith("figures/")}
    made = AnalysisFiles()
    expected = (*made.figures, *made.data)
    assert names == {path.as_posix().removeprefix("results/") for path in expected}
    assert one == two


def three(**columns) -> pd.DataFrame:
    bounds = {"low": [0.2, 0.3], "high": [0.6, 0.7], "min": [0.3, 0.4], "max": [0.5, 0.6]}
    return pd.DataFrame({**bounds, **columns})


def test_aggregate_metrics_have_a_panel_each_and_say_how_many_they_rest_on() -> None:
    frame = three(
        algo=["gmz", "smz"], metric=["IQM", "IQM"], environments=10, seeds=5, value=[0.4, 0.5]
    )
    figure = figures_across.aggregate_metrics(frame, captions("gmz", "smz"))
    (axes,) = figure.axes
    assert axes.get_title() == "IQM"
    assert [line.get_xdata()[0] for line in axes.lines] == [0.4, 0.5]
    assert "10 environments and 5 seeds" in " ".join(texts(figure))


def test_improvement_is_drawn_about_one_half() -> None:
    frame = three(algo="gmz", other="smz", env=["cartpole", "all"], probability=[0.4, 0.5])
    figure = figures_across.probability_of_improvement(frame, captions("gmz", "smz"))
    shown = texts(figure)
    assert {"CartPole-v1", "All environments", "P(Gumbel MuZero beats Stochastic MuZero)"} <= set(
        shown
    )
    assert figure.axes[0].lines[0].get_xdata() == [0.5, 0.5]


def test_budgets_are_evenly_spaced_and_none_is_the_policy_alone() -> None:
    frame = three(env="cartpole", algo="gmz", simulations=[0, 16], seeds=3, mean=[0.4, 0.5])
    figure = figures_search.search_budget(frame, captions("gmz"))
    (axes,) = figure.axes
    assert axes.lines[0].get_xdata().tolist() == [0, 1]
    assert {"none", "16", "Simulations a step"} <= set(texts(figure))


def test_chance_codes_show_prior_and_encoder_of_every_seed() -> None:
    frame = pd.DataFrame(
        {
            "algo": "smz",
            "env": "blackjack",
            "seed": [0, 1],
            "codes_used": 4.0,
            "code_perplexity": [3.0, 3.5],
            "chance_perplexity": [2.0, 2.5],
        }
    )
    figure = figures_search.chance_codes(frame, captions("smz"))
    found = [points.get_offsets()[:, 0].tolist() for points in figure.axes[0].collections]
    assert found == [[2.0, 2.5], [3.0, 3.5]]
    assert {"expected by the prior", "used by the encoder", "Blackjack-v1"} <= set(texts(figure))


def test_distributions_rise_to_all_episodes() -> None:
    frame = pd.DataFrame(
        {
            "algo": "gmz",
            "env": "cartpole",
            "seed": [0, 0, 1, 1],
            "quantile": [0.0, 1.0, 0.0, 1.0],
            "return": [1.0, 9.0, 2.0, 8.0],
        }
    )
    figure = figures_across.score_distribution(frame, captions("gmz"))
    lines = figure.axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [[0.0, 100.0]] * 2
    assert [line.get_xdata().tolist() for line in lines] == [[1.0, 9.0], [2.0, 8.0]]


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (figures_across.aggregate_metrics, "No seed is in every environment of all algorithms"),
        (figures_across.performance_profiles, "No seed is in every environment of all algorithms"),
        (figures_across.probability_of_improvement, "One algorithm: nothing to compare"),
        (figures_search.chance_codes, "No algorithm here has chance"),
    ],
)
def test_a_figure_of_nothing_says_why(draw, reason: str) -> None:
    frame = pd.DataFrame(columns=["algo", "metric"])
    assert texts(draw(frame, captions("gmz"))) == [reason]
