"""Films of an environment's frames: GIF, and MP4 where imageio and ffmpeg are installed."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mujax_pipe.errors import UserError, quoted
from mujax_pipe.training.files import require_writable

_FORMATS = (".gif", ".mp4")
# Pixels: a wider GIF takes more space and says no more.
_GIF_WIDTH = 400
_INSTALL = 'pip install "imageio[ffmpeg]"'


class _Writer(Protocol):
    def append(self, frame: np.ndarray) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Frames:
    """Takes frames one by one.

    Attributes:
      count: frames so far.
    """

    def __init__(self, writer: _Writer, fps: int):
        self._writer, self._fps = writer, fps
        self.count = 0

    @property
    def seconds(self) -> float:
        """How long the film runs."""
        return self.count / self._fps

    def add(self, frame: Any) -> None:
        """Adds an RGB frame, [height, width, 3] uint8."""
        self._writer.append(np.asarray(frame))
        self.count += 1


def require_format(path: Path) -> None:
    """Raises `UserError` unless `path` names a format that can be written here."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise UserError(f"--record is {str(path)!r}: allowed are names in {quoted(_FORMATS)}")
    if suffix == ".mp4":
        for module in ("imageio", "imageio_ffmpeg"):
            try:
                importlib.import_module(module)
            except ImportError:
                raise UserError(
                    f"recording {path} needs {module}, which is not installed: record to a .gif, "
                    f"or {_INSTALL}"
                ) from None


@contextlib.contextmanager
def recorded(path: Path, fps: int | None = None) -> Iterator[Frames]:
    """Yields what takes the frames; the film is at `path` once the block has ended well.

    Args:
      path: a .gif or .mp4 file; replaced if it exists.
      fps: frames a second, 30 if None.

    Raises:
      UserError: the folder cannot be written.
    """
    fps = fps or 30
    require_writable(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final name: what Ctrl-C leaves is no half film under that name.
    partial = path.with_name(f".partial-{path.name}")
    writer: _Writer = (_Gif if path.suffix.lower() == ".gif" else _Mp4)(partial, fps)
    try:
        yield Frames(writer, fps)
        writer.close()
        os.replace(partial, path)
    except BaseException:
        writer.abandon()
        raise
    finally:
        partial.unlink(missing_ok=True)


class _Gif:
    """A GIF that repeats for ever; frames stay in memory until it is written."""

    def __init__(self, path: Path, fps: int):
        self._path = path
        # The format counts hundredths of a second, and viewers slow down what is below two.
        self._milliseconds = max(20, 10 * round(100 / fps))
        self._frames: list[Any] = []

    def append(self, frame: np.ndarray) -> None:
        from PIL import Image

        image = Image.fromarray(frame)
        if image.width > _GIF_WIDTH:
            image = image.resize((_GIF_WIDTH, round(image.height * _GIF_WIDTH / image.width)))
        self._frames.append(image.quantize(64))

    def close(self) -> None:
        first, *rest = self._frames
        first.save(
            self._path,
            format="GIF",
            save_all=True,
            append_images=rest,
            duration=self._milliseconds,
            loop=0,
        )

    def abandon(self) -> None:
        self._frames.clear()


class _Mp4:
    """An MP4, written frame by frame."""

    def __init__(self, path: Path, fps: int):
        imageio = importlib.import_module("imageio.v2")
        # Sizes as they are: ffmpeg would scale them to multiples of 16.
        self._writer = imageio.get_writer(path, format="FFMPEG", fps=fps, macro_block_size=2)

    def append(self, frame: np.ndarray) -> None:
        self._writer.append_data(frame)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        # Ends ffmpeg, which would wait for more.
        self._writer.close()
