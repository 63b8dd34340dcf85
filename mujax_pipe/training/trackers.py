"""Writers to other tools: TensorBoard, DVCLive and W&B, each an extra imported when it is used."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mujax_pipe.training.files import write_json
from mujax_pipe.training.writer_files import (
    cut_after,
    import_extra,
    make_folder,
    plain,
    unwritable,
)


class TensorBoardWriter:
    """Writes event files for TensorBoard, with neither TensorFlow nor PyTorch.

    Records are written here instead of by TensorBoard's own `EventFileWriter`: that one loads
    TensorFlow where it is installed, and reports a full disk late, out of a thread.

    Args:
      directory: for event files only; those of an earlier run are removed.
      resume_step: keep them, and tell TensorBoard to forget what came after this step.

    Raises:
      UserError: the extra is missing, or the folder cannot be written.
    """

    def __init__(self, directory: Path, resume_step: int | None = None):
        import_extra("tensorboard")
        self._protos = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        records = importlib.import_module("tensorboard.summary.writer.record_writer")
        make_folder(directory, "tensorboard")
        try:
            earlier = list(directory.glob("events.out.tfevents.*"))
            if resume_step is None:
                for path in earlier:
                    path.unlink()
                earlier = []
            # TensorBoard finds files by the first part of the name, and reads them sorted by it.
            name = f"events.out.tfevents.{len(earlier):010d}.mujax_pipe"
            self._records = records.RecordWriter((directory / name).open("wb"))
        except OSError as error:
            raise unwritable(directory, "tensorboard", error) from None
        self._add(file_version="brain.Event:2")
        if resume_step is not None:
            start = self._protos.SessionLog(status=self._protos.SessionLog.START)
            self._add(step=resume_step + 1, session_log=start)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        values = [
            self._summaries.Summary.Value(tag=name, simple_value=float(value))
            for name, value in scalars.items()
        ]
        self._add(step=step, summary=self._summaries.Summary(value=values))

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Shows the config under Text."""
        text = importlib.import_module("tensorboard.plugins.text.summary_v2")
        content = json.dumps(plain(config), indent=2)
        self._add(summary=text.text_pb("config", f"```json\n{content}\n```"))

    def close(self) -> None:
        self._records.close()

    def _add(self, **event: Any) -> None:
        self._records.write(self._protos.Event(wall_time=time.time(), **event).SerializeToString())
        self._records.flush()


class DVCLiveWriter:
    """Writes DVCLive's `metrics.json`, `params.yaml` and one table a scalar.

    Saves no DVC experiment and writes neither a `dvc.yaml` nor a report: the project's own pipeline
    describes its outputs.

    Args:
      directory: of DVCLive's files; those of an earlier run are removed.
      resume_step: keep them, up to this step.

    Raises:
      UserError: the extra is missing, or the folder cannot be written.
    """

    def __init__(self, directory: Path, resume_step: int | None = None):
        dvclive = import_extra("dvclive")
        make_folder(directory, "dvclive")
        try:
            if resume_step is not None:
                for path in directory.glob("plots/metrics/**/*.tsv"):
                    cut_after(path, resume_step, "\t")
                # DVCLive reads this file to resume, and a kill may have left half of it.
                write_json(directory / "metrics.json", {"step": resume_step})
            self._live = dvclive.Live(
                dir=str(directory),
                resume=resume_step is not None,
                save_dvc_exp=False,
                dvcyaml=None,
                report=None,
            )
        except OSError as error:
            raise unwritable(directory, "dvclive", error) from None

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        # `next_step` would count by ones and also look for a dvc.yaml to write.
        self._live.step = step
        for name, value in scalars.items():
            self._live.log_metric(name, float(value))
        self._live.make_summary()

    def write_config(self, config: Mapping[str, Any]) -> None:
        self._live.log_params(plain(config))

    def close(self) -> None:
        # Inside `dvc exp run` this would `git add` the folder; everything is written already.
        if "DVC_ROOT" not in os.environ:
            self._live.end()


class WandbWriter:
    """Writes to a W&B run of its own; honours WANDB_MODE and the other variables of W&B.

    Args:
      project: W&B project; WANDB_PROJECT, or else mujax-pipe, if None.
      name: of the run.
      directory: W&B makes its folder `wandb` there.
      resume: go on with the run that was last written from this directory, if there is one.

    Raises:
      UserError: the extra is missing, or the folder cannot be written.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        directory: Path = Path(),
        *,
        resume: bool = False,
    ):
        self._wandb = import_extra("wandb")
        folder = make_folder(directory / "wandb", "wandb")
        remembered = folder / "run-id.txt"
        again = resume and remembered.exists()
        self._run = self._wandb.init(
            project=project or os.environ.get("WANDB_PROJECT") or "mujax-pipe",
            name=name,
            dir=str(directory),
            id=remembered.read_text(encoding="utf-8").strip() if again else None,
            resume="allow" if again else None,
            # Several runs may live in one process, such as a user's own beside this one.
            reinit="create_new",
            # Capturing the terminal would tear the progress bar apart.
            settings=self._wandb.Settings(console="off"),
        )
        remembered.write_text(f"{self._run.id}\n", encoding="utf-8")

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        self._run.log({name: float(value) for name, value in scalars.items()}, step=step)

    def write_config(self, config: Mapping[str, Any]) -> None:
        self._run.config.update(plain(config), allow_val_change=True)

    def log_model(self, directory: Path, name: str, metadata: Mapping[str, Any]) -> None:
        """Uploads a folder as an artifact of type `model`; one version for each content.

        The files are copied before this returns, so the folder may then change.
        """
        allowed = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        artifact = self._wandb.Artifact(allowed, type="model", metadata=plain(metadata))
        artifact.add_dir(str(directory))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        self._run.finish()
