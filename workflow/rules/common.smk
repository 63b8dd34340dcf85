"""What the rules share: the parameters, where files lie, and what a cell is."""

import sys
from pathlib import Path

from mujax_pipe import layout
from mujax_pipe.budget import train_minutes
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles, Cell, CellFiles, EnvironmentFiles
from mujax_pipe.params import load_params

try:
    PARAMS = load_params()
except UserError as error:
    sys.exit(f"mujax-pipe: {error}")

# The files of any cell and environment, as patterns.
CELL = CellFiles(Cell(algo="{algo}", env="{env}", seed="{seed}"))
ENVIRONMENT = EnvironmentFiles("{env}")
ALL, DEMO = AnalysisFiles("all"), AnalysisFiles("demo")


def cell_of(wildcards):
    return PARAMS.cell(wildcards.algo, wildcards.env, int(wildcards.seed))


def config_of(wildcards):
    return PARAMS.config(cell_of(wildcards))


def reported(path):
    """Puts a file that has a caption into the report."""
    caption = Path(workflow.basedir) / "report" / f"{path.name}.rst"
    if not caption.exists():
        return path
    return report(
        path,
        caption=caption,
        category="Figures" if path.suffix == ".png" else "Tables",
        labels={"what": path.stem.replace("_", " ")},
    )
