"""The one exception for mistakes that the person at the keyboard can mend."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in what was asked for: one English line, shown without a traceback, exit code 2.

    The message names the thing, the value found, what is allowed, and what to do.
    """


def quoted(names: object) -> str:
    """Returns an iterable of names as `a, b, c`, for the "what is allowed" part of a message."""
    return ", ".join(str(name) for name in names)  # type: ignore[attr-defined]


class RunError(Exception):
    """A run went wrong in the middle: one English line, shown without a traceback, exit code 1.

    The message says where, what was found, and from what the run can go on.
    """


class StoppedError(Exception):
    """A signal asked a run to stop; it saved what it needs to go on.

    Attributes:
      signal: its number; the exit code is 128 + signal, as shells have it.
    """

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal
