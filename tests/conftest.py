"""Settles what must be settled before JAX starts, in this process and in those that tests start."""

from __future__ import annotations

import functools
import os
import tempfile
from typing import Any

import pytest

from mujax_pipe import runtime

# One XLA thread, as in every real run.
runtime.prepare()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["DVC_NO_ANALYTICS"] = "1"
# Figures need no screen, and no matplotlibrc of the user's.
_matplotlib = tempfile.TemporaryDirectory(prefix="matplotlib-")
os.environ["MPLBACKEND"] = "agg"
os.environ["MPLCONFIGDIR"] = _matplotlib.name


@pytest.fixture(scope="session", autouse=True)
def strict_ranks() -> None:
    """Makes broadcasting over unequal ranks an error, save inside flashbax's sampling."""
    import jax
    from flashbax.buffers import trajectory_buffer

    jax.config.update("jax_numpy_rank_promotion", "raise")
    sample = trajectory_buffer.sample

    @functools.wraps(sample)
    def lenient(*args: Any, **kwargs: Any) -> Any:
        with jax.numpy_rank_promotion("allow"):
            return sample(*args, **kwargs)

    trajectory_buffer.sample = lenient
