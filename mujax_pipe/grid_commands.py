"""The commands that read params.yaml: a cell, the analysis, and what keeps results honest."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Annotated

import typer

from mujax_pipe.errors import RunError
from mujax_pipe.layout import LOGS, Cell, CellFiles
from mujax_pipe.options import prepare, whole_number
from mujax_pipe.settings import check_value

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

app = typer.Typer()
cell_app = typer.Typer(help="Train, evaluate or probe one cell of the grid in params.yaml.")
app.add_typer(cell_app, name="cell")

Algo = Annotated[str, typer.Argument(metavar="ALGO", help="Algorithm, as in grid.algo.")]
Env = Annotated[str, typer.Argument(metavar="ENV", help="Environment, as in grid.env.")]
Seed = Annotated[
    int,
    typer.Argument(metavar="SEED", help="Seed, such as those in grid.seed.", parser=whole_number),
]
Grid = Annotated[str, typer.Option("--grid", metavar="all|demo", help="Which cells.")]


@cell_app.command("train")
def cell_train(algo: Algo, env: Env, seed: Seed) -> None:
    """Train a cell and keep its best and its last checkpoint."""
    params, cell = _cell(algo, env, seed)
    prepare(params.run.threads)
    from mujax_pipe.locking import only_one
    from mujax_pipe.training import cells, progress

    files = CellFiles(cell)
    with only_one(files.lock, cell.name), progress.written_to(files.progress):
        cells.train_cell(params, cell, Path())
    files.progress.unlink(missing_ok=True)


@cell_app.command("evaluate")
def cell_evaluate(algo: Algo, env: Env, seed: Seed) -> None:
    """Play the checkpoints of a cell on seeds that training never used."""
    params, cell = _cell(algo, env, seed)
    prepare()
    from mujax_pipe.locking import only_one
    from mujax_pipe.training import cells

    with only_one(CellFiles(cell).lock, cell.name):
        cells.evaluate_cell(params, cell, Path())


@cell_app.command("search")
def cell_search(algo: Algo, env: Env, seed: Seed) -> None:
    """Play the best checkpoint of a cell with other search budgets."""
    params, cell = _cell(algo, env, seed)
    prepare()
    from mujax_pipe.locking import only_one
    from mujax_pipe.training import search_budget

    with only_one(CellFiles(cell).search_lock, f"the search of {cell.name}"):
        search_budget.search_cell(params, cell, Path())


@app.command()
def film(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, as in grid.env.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A .gif or .mp4 to film in.")],
) -> None:
    """Film a few seconds of the best of an environment's cells."""
    from mujax_pipe.params import load_params

    params = load_params()
    params.environment(env)
    prepare()
    from mujax_pipe.training.play import film_best

    film_best(params, env, path)


@app.command()
def random(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, as in grid.env.")],
) -> None:
    """Measure what a random policy scores: 0 where environments are put together."""
    from mujax_pipe.params import load_params

    params = load_params()
    params.environment(env)
    _check_fingerprint()
    prepare()
    from mujax_pipe.training import anchors

    anchors.measure_random(params, env, Path())


def _cell(algo: str, env: str, seed: int) -> tuple[Params, Cell]:
    """Returns params.yaml and one of its cells, once the fingerprint is found right."""
    from mujax_pipe.params import load_params

    params = load_params()
    cell = params.cell(algo, env, seed)
    _check_fingerprint()
    return params, cell


def _check_fingerprint() -> None:
    """Refuses a stale one; warns of other versions than the pinned, which `sync` refuses."""
    from mujax_pipe import fingerprint

    fingerprint.check(warn=lambda line: typer.echo(f"mujax-pipe: warning: {line}", err=True))


@app.command()
def aggregate(grid: Grid = "all") -> None:
    """Gather finished cells into tables and summary.json."""
    from mujax_pipe import analysis
    from mujax_pipe.params import load_params

    analysis.aggregate(load_params(), grid, Path())


@app.command()
def plot(
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Such as learning_curves; every figure if none."),
    ] = None,
    grid: Grid = "all",
) -> None:
    """Draw the figures from what aggregate made."""
    from mujax_pipe import analysis
    from mujax_pipe.params import load_params

    analysis.plot(load_params(), grid, Path(), name or ())


@app.command()
def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A git revision or DVC experiment; or workspace.")
    ],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Likewise: B is compared with A.")
    ] = "workspace",
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where the figure goes.")
    ] = LOGS / "comparison",
) -> None:
    """Say, for each environment, whether two versions differ by more than their seeds do."""
    from mujax_pipe import analysis
    from mujax_pipe.params import load_params

    analysis.compare(load_params(), first, second, out)


@app.command()
def cost(grid: Grid = "all") -> None:
    """Print and draw what training cost here: seconds, memory, learning against seconds."""
    from mujax_pipe import analysis
    from mujax_pipe.params import load_params

    analysis.cost(load_params(), grid, Path())


@app.command()
def page() -> None:
    """Write the page of the published grid: results/README.md, with the cost of its cells."""
    from mujax_pipe import analysis
    from mujax_pipe.params import load_params

    analysis.write_page(load_params(), Path())


@app.command()
def summary(grid: Grid = "all") -> None:
    """Print the final scores, where the figures lie, and how results compare with git's."""
    from mujax_pipe import analysis
    from mujax_pipe.params import load_params

    analysis.print_summary(load_params(), grid, Path())


@app.command()
def status(
    grid: Grid = "all",
    once: Annotated[bool, typer.Option("--once", help="Print it, for a log, and end.")] = False,
) -> None:
    """Watch the grid: what is done, runs, has stopped or waits; whichever engine runs it."""
    from mujax_pipe import status
    from mujax_pipe.params import load_params

    status.watch(load_params(), grid, Path(), once=once)


@app.command()
def sync(grid: Grid = "all") -> None:
    """Make Snakemake and DVC agree, whichever has run or fetched the results."""
    from mujax_pipe import sync
    from mujax_pipe.params import load_params

    sync.sync(load_params(), grid, Path(), say=typer.echo)


@app.command()
def verify(
    cell: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CELL...", help="Such as gmz/cartpole/seed-0; all finished if none."
        ),
    ] = None,
    cheapest: Annotated[
        bool, typer.Option("--cheapest", help="The one cell that takes the least work.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="X",
            help="Compare mean returns, not bytes: the largest difference as a share (0.1: 10 %).",
        ),
    ] = None,
) -> None:
    """Train published cells again elsewhere, and compare every byte."""
    from mujax_pipe.params import load_params

    if tolerance is not None:
        check_value("--tolerance", tolerance, float, {"low": 0.0, "high": 10.0})
    params = load_params()
    prepare()
    from mujax_pipe.training import verify

    cells = verify.chosen(params, cell or (), cheapest=cheapest)
    if not verify.verify(params, cells, tolerance=tolerance, say=typer.echo):
        raise RunError("not everything is as published: see the lines that begin with differs")


@app.command()
def stages(
    write: Annotated[
        bool, typer.Option("--write", help="List the files of params.yaml's demo there.")
    ] = False,
) -> None:
    """Check that dvc.yaml says what params.yaml and Snakemake's rules say."""
    from mujax_pipe import dvc_stages
    from mujax_pipe.params import load_params

    params = load_params()
    if write and dvc_stages.write_demo(params):
        typer.echo("dvc.yaml lists other files for the demo now.")
    dvc_stages.check(params)


@app.command()
def fingerprint(
    write: Annotated[bool, typer.Option("--write", help="Bring it up to date.")] = False,
) -> None:
    """Check fingerprint.json, on which every cell depends."""
    from mujax_pipe import fingerprint

    if not write:
        fingerprint.check()
    elif fingerprint.write():
        typer.echo("fingerprint.json changed: every cell will be trained again.")
    else:
        typer.echo("fingerprint.json is up to date.")
