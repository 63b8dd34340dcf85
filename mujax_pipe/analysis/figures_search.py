"""Figures of what search and chance are worth to a trained network."""

from __future__ import annotations

import dataclasses

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mujax_pipe.analysis.style import Captions, band, frame_scores, legend, note, panels_for, spread


def search_budget(budgets: pd.DataFrame, captions: Captions) -> Figure:
    """Return against simulations a step, one panel an environment; 0 is the policy alone.

    Args:
      budgets: columns env, algo, simulations, seeds, mean, low, high, min, max.
      captions: looks of the algorithms, titles of the environments.
    """
    figure, panels = panels_for(list(budgets["env"].unique()), captions, row_height=1.75)
    for env, axes in panels:
        mine = budgets[budgets["env"] == env]
        # Evenly spaced, as each doubles the last.
        simulations = sorted(mine["simulations"].unique())
        for algo, rows in mine.groupby("algo", sort=False):
            places = rows["simulations"].map(simulations.index)
            band(axes, places, rows, "mean", captions.looks[algo])
        axes.set_xticks(
            range(len(simulations)), ["none" if n == 0 else str(n) for n in simulations]
        )
        frame_scores(axes, pd.concat([mine["min"], mine["max"]]))
    figure.supxlabel("Simulations a step", fontsize=8)
    figure.supylabel("Mean return", fontsize=8)
    legend(figure, budgets, captions, counts=False)
    return figure


def chance_codes(chances: pd.DataFrame, captions: Captions) -> Figure:
    """How many chance outcomes the model expects, and how many it tells apart, a mark a seed.

    Args:
      chances: columns algo, env, seed, code_perplexity, codes_used, chance_perplexity.
      captions: titles of the environments.
    """
    if chances.empty:
        return note("No algorithm here has chance")
    envs, algos = list(chances["env"].unique()), list(chances["algo"].unique())
    figure, panels = panels_for(algos, _algorithms(captions), row_height=0.7 + 0.3 * len(envs))
    for algo, axes in panels:
        look = captions.looks[algo]
        for place, env in enumerate(envs):
            mine = chances[(chances["algo"] == algo) & (chances["env"] == env)]
            height = [place + 0.25 * spread(i, len(mine)) for i in range(len(mine))]
            for name, colour in (("chance_perplexity", look.colour), ("code_perplexity", "white")):
                axes.scatter(
                    mine[name], height, marker=look.marker, s=14, facecolor=colour,
                    edgecolor=look.colour, linewidth=0.8, zorder=3,
                )  # fmt: skip
        axes.set_yticks(range(len(envs)), [captions.titles[env] for env in envs])
        axes.set_ylim(len(envs) - 0.45, -0.55)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0.8)
    figure.supxlabel("Chance outcomes (perplexity)", fontsize=8)
    handles = [
        Line2D(
            [], [], linestyle="", marker="o", color="#555555", markersize=4, label=label, mfc=fill
        )
        for label, fill in (("expected by the prior", "#555555"), ("used by the encoder", "white"))
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def _algorithms(captions: Captions) -> Captions:
    """Captions whose panels are titled by algorithm."""
    titles = {algo: look.name for algo, look in captions.looks.items()}
    return dataclasses.replace(captions, titles=titles)
