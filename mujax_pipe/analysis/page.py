"""The page of the published grid, `results/README.md`: scores, references, figures, cost.

What a clock measured cannot come out the same twice, so cost has a file of its own,
`results/cost.csv`: cells trained in this folder bring new rows, others keep those that are there.
With the same tables and cost the page is the same bytes.
"""

from __future__ import annotations

import subprocess
import typing
from pathlib import Path

import pandas as pd

from mujax_pipe.analysis import results, statistics
from mujax_pipe.analysis.formats import csv, display, environment_title, markdown, write
from mujax_pipe.analysis.tables import interval_notes, shown_scores
from mujax_pipe.errors import UserError
from mujax_pipe.layout import COST, FINGERPRINT, PAGE, RESULTS, AnalysisFiles, Cell, CellFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

COLUMNS = {
    "algo": "str",
    "env": "str",
    "seed": "int64",
    "seconds": "float64",
    "megabytes": "float64",
    "cpu": "str",
}


def write_page(params: Params, root: Path = Path()) -> None:
    """Writes `results/cost.csv` and `results/README.md`.

    Raises:
      UserError: a table or a measured score is missing, or a cell has no record of its cost.
    """
    cost = costs(params, root)
    write(root / COST, csv(cost).encode())
    write(root / PAGE, page(params, cost, root).encode())


def costs(params: Params, root: Path = Path()) -> pd.DataFrame:
    """Returns what each cell of the grid cost: from its log, or as recorded before.

    Raises:
      UserError: a cell has neither.
    """
    known: dict[tuple[str, str, int], dict[str, typing.Any]] = {}
    if (root / COST).exists():
        recorded = results.read_csv(root / COST, COLUMNS, made_by="mujax-pipe page")
        known = {(row["algo"], row["env"], row["seed"]): row for row in recorded.to_dict("records")}
    rows = []
    for cell in params.cells():
        path, key = CellFiles(cell, root).machine, (cell.algo, cell.env, cell.seed)
        if path.exists():
            record = results.read_json(path, made_by=results.command("train", cell))
            rows.append(
                {
                    **dict(zip(("algo", "env", "seed"), key, strict=True)),
                    "seconds": float(record["seconds"]),
                    "megabytes": float(record["peak_memory_mb"]),
                    "cpu": str(record["cpu"]).replace(",", " "),
                }
            )
        elif key in known:
            rows.append(known[key])
        else:
            raise UserError(
                f"{cell.name} has a record of its seconds neither in {path} nor in {COST}: run "
                f"{results.command('train', cell)}"
            )
    return pd.DataFrame(rows)


def page(params: Params, cost: pd.DataFrame, root: Path = Path()) -> str:
    """Returns the page.

    Args:
      params: of the project.
      cost: of `costs`.
      root: the folder of params.yaml.
    """
    scores = statistics.final_scores(_scores(params, root), params.analysis)
    figures = AnalysisFiles().figures
    shown = [path.relative_to(RESULTS).as_posix() for path in figures if path.suffix == ".png"]
    hours = params.run.threads * cost["seconds"].sum() / 3600
    parts = [
        "# Results",
        "Written by `mujax-pipe page` from the files beside it; never edited.",
        markdown(_table(params, scores, cost, root)).rstrip(),
        *interval_notes(params, scores),
        "Random: the measured return of a policy that draws among the legal actions, the base (0) "
        "of normalised scores where no other is named. References (1):",
        "\n".join(_reference(params, env) for env in params.environments_of()),
        f"The {len(cost)} cells took {hours:.1f} core-hours to train ({_machines(cost)}), "
        f"{_threads(params)} each; [each of them](cost.csv). They were trained by the code of "
        f"[`{FINGERPRINT}`](../{FINGERPRINT}){_commit(root)}.",
        "## Make a row again",
        "Training again in a folder of its own, and comparing every byte:",
        "```sh\n" + "\n".join(_again(params)) + "\n```",
        "Everything: delete `results/cells`, then `snakemake --cores all`; or `dvc repro --force`.",
        "## Figures",
        *(f"![{Path(name).stem.replace('_', ' ')}]({name})" for name in shown),
    ]
    return "\n\n".join(parts) + "\n"


def _scores(params: Params, root: Path) -> pd.DataFrame:
    """Returns the table of scores; raises `UserError` where it is not of the grid's cells."""
    table = results.read_tables("all", root).scores
    found = set(zip(table["algo"], table["env"], table["seed"], strict=True))
    wanted = {(cell.algo, cell.env, cell.seed) for cell in params.cells()}
    for name in sorted(found ^ wanted):
        what = "lacks" if name in wanted else "has"
        raise UserError(
            f"{AnalysisFiles(root=root).scores} {what} {'{}/{}/seed-{}'.format(*name)}, unlike the "
            "grid of params.yaml: make it again with: mujax-pipe aggregate"
        )
    return table


def _table(params: Params, scores: pd.DataFrame, cost: pd.DataFrame, root: Path) -> pd.DataFrame:
    """Puts references and cost beside the final scores."""
    table = shown_scores(params, scores)
    envs = scores["env"]
    seconds = params.run.threads * cost.groupby(["env", "algo"])["seconds"].mean()
    table.insert(2, "Steps", [f"{params.environments[env].num_env_steps:,}" for env in envs])
    table["Random"] = [display(results.read_random(params, env, root)) for env in envs]
    table["Reference"] = [display(params.references[env].score) for env in envs]
    table["Core-seconds a seed"] = [
        f"{seconds[env, algo]:,.0f}" for env, algo in zip(envs, scores["algo"], strict=True)
    ]
    return table


def _reference(params: Params, env: str) -> str:
    reference = params.references[env]
    text = f"- {environment_title(params, env)}: {display(reference.score)} ({reference.source})"
    if reference.base is None:
        return text
    return f"{text}; base: {display(reference.base)} ({reference.base_source})"


def _threads(params: Params) -> str:
    number = params.run.threads
    return "one XLA thread" if number == 1 else f"{number} XLA threads"


def _again(params: Params) -> list[str]:
    cells: dict[tuple[str, str], list[Cell]] = {}
    for cell in params.cells():
        cells.setdefault((cell.env, cell.algo), []).append(cell)
    names = [" ".join(cell.name for cell in group) for group in cells.values()]
    return [f"mujax-pipe verify {name}" for name in names]


def _machines(cost: pd.DataFrame) -> str:
    return " and ".join(sorted(cost["cpu"].unique()))


def _commit(root: Path) -> str:
    """Names the commit that the fingerprint came with, where git knows."""
    command = ["git", "log", "-1", "--format=%h", "--", FINGERPRINT.as_posix()]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    found = done.stdout.strip() if done.returncode == 0 else ""
    return f", which came with commit {found}" if found else ""
