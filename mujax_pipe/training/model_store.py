"""Models that lie elsewhere: a W&B artifact becomes a folder here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mujax_pipe.errors import UserError
from mujax_pipe.training.writer_files import import_extra


def local_copy(run: str | Path | Any) -> Path:
    """Returns the folder of a run: as given, or where a W&B artifact has been downloaded to.

    Args:
      run: a folder, a W&B artifact, or the name of one: `entity/project/name:version`.

    Raises:
      UserError: the artifact cannot be had.
    """
    if isinstance(run, str) and ":" in run and not Path(run).exists():
        return _download(run, lambda: import_extra("wandb").Api().artifact(run, type="model"))
    if hasattr(run, "download"):
        return _download(getattr(run, "name", "?"), lambda: run)
    return Path(run)


def _download(name: str, find: Any) -> Path:
    try:
        return Path(find().download())
    except UserError:
        raise
    # W&B raises errors of its own, of requests and of the file system; to users they are one.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"the W&B artifact {name!r} cannot be downloaded: {reason}; `wandb login`, or give "
            "the folder of a run"
        ) from None
