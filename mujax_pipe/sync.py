"""Makes Snakemake and DVC agree on a finished grid, whichever of the two has run."""

from __future__ import annotations

import collections
import csv
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

from mujax_pipe import dvc_stages, layout
from mujax_pipe.dvc_stages import stages, targets
from mujax_pipe.errors import RunError, UserError
from mujax_pipe.params import GRIDS, Params, grid_key
from mujax_pipe.record import record

_LOCKS = Path(".snakemake/locks")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Left:
    """What each engine would still run for a grid."""

    jobs: Mapping[str, int]
    """Snakemake's rule -> number of jobs."""
    changes: dict[str, str]
    """DVC's stage -> its first change."""
    unknown: Set[str]
    """Outputs of which Snakemake has no record, so that it would overlook changed parameters."""

    @property
    def agreed(self) -> bool:
        return not (self.jobs or self.changes or self.unknown)


def sync(
    params: Params, grid: str, root: Path = Path(), say: Callable[[str], None] = print
) -> None:
    """Looks at both engines, says what it will do, and does it; a second time it does nothing.

    Where Snakemake has nothing to do, its results are recorded in dvc.lock; not so a stage that
    changed for DVC and of whose files Snakemake does not know how they were made. Where DVC has
    nothing to do, as after `dvc repro` or `dvc pull`, Snakemake is told that all is up to date.
    With `all` the smaller grids of the same cells come along where an engine has finished them:
    what one grid is told moves times that the others go by.

    Args:
      params: of the project.
      grid: `all` or a part of it.
      root: the project's folder.
      say: prints a line.

    Raises:
      UserError: no such grid, dvc.yaml does not fit params.yaml, neither engine is done, or one is
        at work.
      RunError: an engine failed, or is not content afterwards.
    """
    grid_key(grid)
    dvc_stages.check(params, root)
    before = _look(params, list(GRIDS) if grid == "all" else [grid], root)
    asked = before[grid]
    if asked.jobs and asked.changes:
        stage, what = next(iter(asked.changes.items()))
        raise UserError(
            "neither engine is done, so nothing was changed: Snakemake would run "
            f"{_listed(asked.jobs)}, and for DVC {len(asked.changes)} stages changed, first "
            f"{stage} ({what}); finish with `snakemake --cores all {grid}` or `dvc repro`, or "
            "fetch results with `dvc pull`"
        )
    for stage, file in _overlooked(asked, params, grid).items():
        raise UserError(
            f"stage {stage} changed for DVC ({asked.changes[stage]}), and Snakemake does not know "
            f"how {file} was made, so it cannot tell: nothing was changed; run `dvc repro {stage}`,"
            f" or delete that file and finish with `snakemake --cores all {grid}`"
        )
    finished = {
        name: left
        for name, left in before.items()
        if not (left.jobs and left.changes) and not _overlooked(left, params, name)
    }
    # Recording goes by what Snakemake says now, so it comes before anything is touched.
    for name, left in finished.items():
        if left.changes:
            count = len(left.changes)
            say(f"{name}: Snakemake is done; recording {count} stages that changed in dvc.lock.")
            record(params, name, root)
    untold = {name: left for name, left in finished.items() if left.jobs or left.unknown}
    for name, left in untold.items():
        why = f"would run {_listed(left.jobs)}" if left.jobs else "has no record of how it was made"
        say(f"{name}: DVC is done; telling Snakemake, which {why}.")
    if untold:
        _require_idle(root)
        # All in one go, for they share cells, whose new times would make the others stale; and all
        # of each, for Snakemake to remember the parameters.
        _snakemake(root, "--touch", "--forceall", "--cores", "1", *finished)
    # Whichever engine was told something is asked again.
    after = finished
    if untold:
        after = _with_snakemakes(after, params, root)
    if any(left.changes for left in finished.values()):
        after = _with_dvcs(after, params, root)
    for name, left in finished.items():
        if not after[name].agreed:
            still = _listed(after[name].jobs) or ", ".join(after[name].changes)
            raise RunError(
                f"the engines still do not agree on {name!r}, left are {still}: run either of them"
            )
        cells = f"the {len(params.cells(name))} cells of {name!r}"
        nothing = ": nothing to do" if left.agreed else ""
        say(f"Snakemake and DVC agree on {cells}{nothing}.")


def _overlooked(left: _Left, params: Params, grid: str) -> dict[str, Path]:
    """Returns the stages that changed for DVC, with a file that Snakemake has no record of."""
    return {
        stage: next(path for path in files if str(path) in left.unknown)
        for stage, files in stages(params, grid).items()
        if stage in left.changes and left.unknown & set(map(str, files))
    }


def _look(params: Params, grids: Sequence[str], root: Path) -> dict[str, _Left]:
    """Returns what is left of each grid."""
    nothing = {grid: _Left(jobs={}, changes={}, unknown=frozenset()) for grid in grids}
    return _with_snakemakes(_with_dvcs(nothing, params, root), params, root)


def _with_dvcs(left: Mapping[str, _Left], params: Params, root: Path) -> dict[str, _Left]:
    """Asks DVC, the slower to answer, once for all grids."""
    changes = _changes(params, list(left), root)
    return {
        grid: dataclasses.replace(
            one,
            changes={stage: changes[stage] for stage in stages(params, grid) if stage in changes},
        )
        for grid, one in left.items()
    }


def _with_snakemakes(left: Mapping[str, _Left], params: Params, root: Path) -> dict[str, _Left]:
    """Asks Snakemake for all grids at once, and for each only where something is left."""
    together = _jobs(list(left), root)
    unknown = _unknown(list(left), root)
    return {
        grid: dataclasses.replace(
            one,
            jobs=_jobs([grid], root) if together and len(left) > 1 else together,
            unknown=unknown & set(map(str, layout.outputs(params.cells(grid), grid))),
        )
        for grid, one in left.items()
    }


def _jobs(grids: Sequence[str], root: Path) -> dict[str, int]:
    """Returns rule -> number of jobs that Snakemake would run."""
    printed = _snakemake(root, "--dry-run", *grids)
    counts = collections.Counter(re.findall(r"^(?:local)?rule (\w+):", printed, re.M))
    if not counts and "Nothing to be done" not in printed:
        raise RunError(
            "Snakemake does not say what it would run: is `quiet` set in a profile of yours "
            "(SNAKEMAKE_PROFILE)?"
        )
    # The targets themselves run nothing.
    return {rule: count for rule, count in counts.items() if rule not in grids}


def _unknown(grids: Sequence[str], root: Path) -> set[str]:
    """Returns the files of which Snakemake does not know how they were made, as those of DVC."""
    lines = _run(root, "snakemake", "--summary", *grids, quiet=True).splitlines()
    rows = csv.DictReader(lines, delimiter="\t")
    return {row["output_file"] for row in rows if row["log-file(s)"] == "-"}


def _changes(params: Params, grids: Sequence[str], root: Path) -> dict[str, str]:
    """Returns stage -> its first change, as `dvc status` has them."""
    named = dict.fromkeys(target for grid in grids for target in targets(params, grid))
    # A stage that is named beside its group would be looked up by itself, a second each.
    asked = [name for name in named if "@" not in name or name.split("@")[0] not in named]
    printed = _run(root, "dvc", "status", "--json", *asked, quiet=True) if asked else ""
    found = json.loads(printed.strip().splitlines()[-1] if printed.strip() else "{}")
    return {stage: _first(changes) for stage, changes in found.items()}


def _first(changes: list[str | dict[str, object]]) -> str:
    """Writes the first entry of `dvc status`, such as a changed dependency, on one line."""
    entry: object = changes[0]
    words = []
    while isinstance(entry, dict) and entry:
        key, entry = next(iter(entry.items()))
        words.append(str(key))
    return ": ".join([*words, str(entry)] if entry else words)


def _require_idle(root: Path) -> None:
    if any((root / _LOCKS).glob("*")):
        raise UserError(
            f"Snakemake is at work in this folder, or was killed ({_LOCKS} is not empty): wait for "
            "it, or run `snakemake --unlock`"
        )


def _snakemake(root: Path, *arguments: str) -> str:
    return _run(root, "snakemake", *arguments)


def _run(root: Path, module: str, *arguments: str, quiet: bool = False) -> str:
    """Runs an engine of this environment; returns what it printed, `quiet` without messages."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        reason = next((x for x in lines if "rror" in x or "mujax-pipe:" in x), (lines or [""])[-1])
        raise RunError(f"{module} {arguments[0]} failed: {reason.strip()}")
    return done.stdout if quiet else done.stdout + done.stderr


def _listed(jobs: Mapping[str, int]) -> str:
    return ", ".join(f"{name} x {count}" if count > 1 else name for name, count in jobs.items())
