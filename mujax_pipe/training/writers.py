"""Where the scalars of a run go: the console, a CSV file, TensorBoard, DVCLive, W&B, or several.

Nothing here can change a result: writers get numbers, draw none, and one that fails is dropped.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mujax_pipe.errors import UserError, quoted
from mujax_pipe.training.files import write_json
from mujax_pipe.training.trackers import DVCLiveWriter, TensorBoardWriter, WandbWriter
from mujax_pipe.training.writer_files import cut_after, make_folder, plain, unwritable

# What a line on the console says, in this order. Everything else is in the other writers' files.
CONSOLE_SCALARS = (
    "evaluator/score",
    "evaluator/episode_return",
    "actor/episode_return",
    "actor/policy_entropy",
    "learner/loss",
    "learner/prior_entropy",
)

Line = Callable[[str], None]


class Writer(Protocol):
    """Takes the scalars of a run."""

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars at a learner step; names begin with learner/, actor/ or evaluator/."""

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Writes the settings of the run."""

    def close(self) -> None:
        """Writes what is left and frees files and connections."""


class ConsoleWriter:
    """Prints a line for each write that holds a chosen scalar, with four digits.

    Args:
      print_line: prints one line.
      names: the chosen scalars, in the order of the line.
    """

    def __init__(self, print_line: Line = print, names: Sequence[str] = CONSOLE_SCALARS):
        self._print_line = print_line
        self._names = names

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        parts = [f"{name} {scalars[name]:.4g}" for name in self._names if name in scalars]
        if parts:
            self._print_line(f"step {step:,}: {', '.join(parts)}")

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Prints nothing: a config is too long for a line."""

    def close(self) -> None:
        pass


class CSVWriter:
    """Appends a row `step,name,value` for each scalar, and puts the config beside it as JSON.

    Rows and not columns: a scalar that appears late needs no rewriting of what is there, and a kill
    spoils the last line at most. `table.pivot_table(index="step", columns="name", values="value")`
    makes columns of it in pandas. Where a step and name come twice, the later row holds.

    Args:
      path: of the table; one from an earlier run is replaced.
      resume_step: keep its rows up to this step and go on.

    Raises:
      UserError: the path cannot be written.
    """

    def __init__(self, path: Path, resume_step: int | None = None):
        self._config = path.with_name("config.json")
        make_folder(path.parent, "csv")
        resume = resume_step is not None and path.exists()
        try:
            if resume_step is not None and resume:
                cut_after(path, resume_step)
            self._file = path.open("a" if resume else "w", encoding="utf-8", newline="")
            if self._file.tell() == 0:
                self._append([("step", "name", "value")])
        except OSError as error:
            raise unwritable(path, "csv", error) from None

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        self._append([(step, name, float(value)) for name, value in scalars.items()])

    def write_config(self, config: Mapping[str, Any]) -> None:
        write_json(self._config, plain(config))

    def close(self) -> None:
        self._file.close()

    def _append(self, rows: list[tuple[Any, ...]]) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._file.write(buffer.getvalue())
        self._file.flush()


class Logger:
    """A writer that hands on to several; one that fails is reported once and dropped.

    Args:
      writers: to hand on to.
      report: prints one line about a failure.
    """

    def __init__(self, writers: Sequence[Writer], report: Line = print):
        self._writers = list(writers)
        self._dropped: list[Writer] = []
        self._report = report

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        self._each(lambda writer: writer.write(step, scalars))

    def write_config(self, config: Mapping[str, Any]) -> None:
        self._each(lambda writer: writer.write_config(config))

    def log_model(self, directory: Path, name: str, metadata: Mapping[str, Any]) -> None:
        """Hands a folder to the writers that keep models, such as W&B."""
        self._each(
            lambda writer: writer.log_model(directory, name, metadata),
            [writer for writer in self._writers if hasattr(writer, "log_model")],
        )

    def close(self) -> None:
        """Closes all. One that had been dropped was reported then, and is not again."""
        self._each(lambda writer: writer.close())
        for writer in self._dropped:
            with contextlib.suppress(Exception):
                writer.close()
        self._writers, self._dropped = [], []

    def _each(self, call: Callable[[Any], None], writers: list[Writer] | None = None) -> None:
        for writer in list(self._writers if writers is None else writers):
            try:
                call(writer)
            except Exception as error:
                self._report(_failure(type(writer).__name__, error))
                self._writers.remove(writer)
                self._dropped.append(writer)


class ContinuedWriter:
    """The writer of a run that goes on: it keeps what was written up to the step that was saved.

    What was saved may turn out to be of another run, with other settings. Then this one begins anew
    and its writer with it, which shows in the first write: the evaluation at step 0.

    Args:
      make: makes the writer that goes on from a step; from None, one that begins anew.
      saved_step: learner step of what was saved.
    """

    def __init__(self, make: Callable[[int | None], Logger], saved_step: int):
        self._make = make
        self._written = False
        self._writer = make(saved_step)
        self._config: Mapping[str, Any] = {}

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        if step == 0 and not self._written:
            self._writer.close()
            self._writer = self._make(None)
            self._writer.write_config(self._config)
        self._written = True
        self._writer.write(step, scalars)

    def write_config(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._writer.write_config(config)

    def log_model(self, directory: Path, name: str, metadata: Mapping[str, Any]) -> None:
        self._writer.log_model(directory, name, metadata)

    def close(self) -> None:
        self._writer.close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """What a writer can be made from.

    Attributes:
      directory: where its files go.
      title: names the run.
      print_line: prints one line.
      project: of W&B; WANDB_PROJECT, or else mujax-pipe, if None.
      resume_step: learner step of the checkpoint that the run goes on from; None for a new run.
    """

    directory: Path
    title: str
    print_line: Line
    project: str | None
    resume_step: int | None


WRITERS: dict[str, Callable[[Setup], Writer]] = {
    "console": lambda setup: ConsoleWriter(setup.print_line),
    "csv": lambda setup: CSVWriter(setup.directory / "metrics.csv", setup.resume_step),
    "tensorboard": lambda setup: TensorBoardWriter(
        setup.directory / "tensorboard", setup.resume_step
    ),
    "dvclive": lambda setup: DVCLiveWriter(setup.directory / "dvclive", setup.resume_step),
    "wandb": lambda setup: WandbWriter(
        setup.project, setup.title, setup.directory, resume=setup.resume_step is not None
    ),
}


def create_writer(
    names: Sequence[str],
    directory: Path | str,
    *,
    title: str,
    print_line: Line = print,
    report: Line | None = None,
    project: str | None = None,
    resume_step: int | None = None,
) -> Logger:
    """Returns one writer that hands on to those named.

    What the user can mend before the run starts is an error; a service that does not answer is
    reported, and the run goes on without it.

    Args:
      names: among console, csv, tensorboard, dvclive and wandb.
      directory: where their files go.
      title: names the run.
      print_line: prints a line of the console writer.
      report: prints a line about a writer that failed; `print_line` if None.
      project: of W&B.
      resume_step: learner step of the checkpoint that the run goes on from; None for a new run.

    Raises:
      UserError: an unknown name, a missing extra, or a folder that cannot be written.
    """
    chosen = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in WRITERS:
            raise UserError(f"writer {name!r} is unknown: allowed are {quoted(WRITERS)}")
    report = report or print_line
    setup = Setup(
        directory=Path(directory),
        title=title,
        print_line=print_line,
        project=project,
        resume_step=resume_step,
    )
    made: list[Writer] = []
    for name in chosen:
        try:
            made.append(WRITERS[name](setup))
        except UserError:
            Logger(made, report).close()
            raise
        except Exception as error:
            report(_failure(name, error))
    return Logger(made, report)


def _failure(name: str, error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"writer {name} failed and is dropped, the run goes on without it: {reason}"
