"""The stages that dvc.yaml must hold for params.yaml, and what names them to DVC."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from mujax_pipe import layout
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles, Cell, CellFiles, EnvironmentFiles, analysed
from mujax_pipe.params import GRIDS, STAGE_KEYS, Params

# A cell in the words of DVC's templates.
_ITEM = Cell(algo="${item.algo}", env="${item.env}", seed="${item.seed}")  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stage:
    """What makes a stage the same job as Snakemake's rule."""

    matrix: frozenset[str]
    cmd: frozenset[str]
    deps: frozenset[str]
    params: frozenset[str]
    outs: frozenset[str]


def stages(params: Params, grid: str) -> dict[str, tuple[Path, ...]]:
    """Returns the DVC stages of a grid with what each makes, in the order of the work."""
    verbs = ("trained", "evaluated", "searched") if grid == "all" else ("trained", "evaluated")
    names = {"trained": "train", "evaluated": "evaluate", "searched": "search"}
    made = AnalysisFiles(grid)
    suffix = "" if grid == "all" else f"-{grid}"
    return {
        **{
            f"{names[verb]}@{cell.algo}-{cell.env}-{cell.seed}": getattr(CellFiles(cell), verb)
            for verb in verbs
            for cell in params.cells(grid)
        },
        **{
            f"random@{env}": (EnvironmentFiles(env).random,) for env in params.environments_of(grid)
        },
        f"aggregate{suffix}": (made.summary, *made.tables, *made.data),
        f"plot{suffix}": made.figures,
    }


def targets(params: Params, grid: str) -> list[str]:
    """Returns what names the stages of a grid to DVC.

    The whole grid is named by its groups: DVC takes a second for each stage that is named by
    itself, and looks at all the others meanwhile.
    """
    if grid != "all":
        return [*stages(params, grid)]
    return ["train", "evaluate", "search", "random", "aggregate", "plot"]


def check(params: Params, root: Path = Path()) -> None:
    """Checks that dvc.yaml still describes the jobs that Snakemake's rules run.

    DVC has no loops over files, so dvc.yaml names some that follow from params.yaml. Stages of
    the user's own are no concern of ours.

    Raises:
      UserError: names the first stage that differs, what of it, and how.
    """
    path = root / layout.STAGES
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        ours = [name for name in _wanted(params) if name in content["stages"]]
        found = {name: _read(content["stages"][name]) for name in ours}
    except (OSError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path} cannot be read as stages ({str(error).splitlines()[0]}): mend it, or take "
            f"back yours with `git checkout {layout.STAGES}`"
        ) from None
    for name, wanted in _wanted(params).items():
        if name not in found:
            _refuse(path, f"stage {name} is missing")
        for field in dataclasses.fields(_Stage):
            has, wants = getattr(found[name], field.name), getattr(wanted, field.name)
            differences = [f"lacks {entry!r}" for entry in sorted(wants - has)]
            differences += [f"has {entry!r} too much" for entry in sorted(has - wants)]
            if differences:
                more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
                _refuse(path, f"{field.name} of stage {name} {differences[0]}{more}")


def write_demo(params: Params, root: Path = Path()) -> bool:
    """Has dvc.yaml list exactly the files of params.yaml's demo; returns whether that is new.

    Raises:
      UserError: dvc.yaml has no stage `aggregate-demo` with a list of dependencies.
    """
    path = root / layout.STAGES
    text = path.read_text(encoding="utf-8")
    read = (
        *(layout.ANALYSIS_SOURCE, layout.SETTINGS_SOURCE),
        *analysed(params.cells("demo"), "demo"),
    )
    wanted = "".join(f"      - {name}\n" for name in read)
    found = re.search(
        r"^  aggregate-demo:\n(?:    .*\n)*?    deps:\n((?:      - .*\n)+)", text, re.M
    )
    if found is None:
        _refuse(path, "stage aggregate-demo has no list of dependencies")
    changed = text[: found.start(1)] + wanted + text[found.end(1) :]
    if changed == text:
        return False
    path.write_text(changed, encoding="utf-8")
    return True


def _refuse(path: Path, what: str) -> NoReturn:
    raise UserError(
        f"{path}: {what}, so DVC would not do what {layout.PARAMS} and Snakemake's rules say: "
        f"mend it, or take the old one back with `git checkout {layout.STAGES}`; after a change of "
        "`demo`, `mujax-pipe stages --write` lists its files"
    )


def _wanted(params: Params) -> Mapping[str, _Stage]:
    cell = f"{_ITEM.algo} {_ITEM.env} {_ITEM.seed}"
    matrix = [f"{name}: ${{grid.{name}}}" for name in ("algo", "env", "seed")]
    files, environment = CellFiles(_ITEM), EnvironmentFiles(_ITEM.env)
    found = {
        "train": _stage(
            f"mujax-pipe cell train {cell}",
            matrix=matrix,
            deps=[layout.FINGERPRINT],
            params=_keys("train", algo=_ITEM.algo, env=_ITEM.env),
            outs=files.trained,
        ),
        "evaluate": _stage(
            f"mujax-pipe cell evaluate {cell}",
            matrix=matrix,
            deps=[layout.FINGERPRINT, files.best, files.last],
            params=_keys("evaluate", env=_ITEM.env),
            outs=files.evaluated,
        ),
        "search": _stage(
            f"mujax-pipe cell search {cell}",
            matrix=matrix,
            deps=[layout.FINGERPRINT, layout.SEARCH_SOURCE, files.best],
            params=_keys("search", env=_ITEM.env),
            outs=files.searched,
        ),
        "random": _stage(
            f"mujax-pipe random {_ITEM.env}",
            matrix=["env: ${grid.env}"],
            deps=[layout.FINGERPRINT, layout.RANDOM_SOURCE],
            params=_keys("random", env=_ITEM.env),
            outs=[environment.random],
        ),
    }
    for grid, section in GRIDS.items():
        made = AnalysisFiles(grid)
        whole = [layout.CELLS, layout.ENVIRONMENTS]
        read = whole if grid == "all" else analysed(params.cells(grid), grid)
        suffix = "" if grid == "all" else f"-{grid}"
        found[f"aggregate{suffix}"] = _stage(
            f"mujax-pipe aggregate --grid {grid}",
            matrix=[],
            deps=[layout.ANALYSIS_SOURCE, layout.SETTINGS_SOURCE, *read],
            params=_keys("aggregate", grid=section),
            outs=[made.summary, *made.tables, *made.data],
        )
        found[f"plot{suffix}"] = _stage(
            f"mujax-pipe plot --grid {grid}",
            matrix=[],
            deps=[layout.ANALYSIS_SOURCE, made.curves, made.scores, *made.data],
            params=_keys("plot", grid=section),
            outs=made.figures,
        )
    return found


def _keys(verb: str, **names: str) -> list[str]:
    return [key.format(**names) for key in STAGE_KEYS[verb]]


def _stage(cmd: str, **lists: Iterable[str | Path]) -> _Stage:
    names = {name: frozenset(map(str, entries)) for name, entries in lists.items()}
    return _Stage(cmd=frozenset([cmd]), **names)


def _read(stage: Mapping[str, Any]) -> _Stage:
    outs = [*_names(stage.get("outs")), *_names(stage.get("metrics"))]
    return _stage(
        " ".join(str(stage["cmd"]).split()),
        matrix=[f"{name}: {values}" for name, values in stage.get("matrix", {}).items()],
        deps=_names(stage.get("deps")),
        params=_names(stage.get("params")),
        outs=outs,
    )


def _names(entries: Any) -> Iterator[str]:
    """Yields the names in one of dvc.yaml's lists, whose entries may carry settings."""
    for entry in entries or ():
        yield from entry if isinstance(entry, dict) else [str(entry)]
