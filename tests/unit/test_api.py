"""The public names, and the example as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mujax_pipe

ROOT = Path(__file__).parents[2]


def test_every_name_is_there():
    specified = """
        ExperimentConfig EvaluationConfig CheckpointingConfig GMZConfig SMZConfig MuZeroConfig
        run_experiment load_policy load_actor create_writer make_environment_spec profile
        Actor Learner EnvironmentLoop Algorithm ALGORITHMS algorithm_for GMZ SMZ EnvironmentSpec
        Policy EnvLoopObserver InfoKeysObserver Logger Writer ConsoleWriter WandbWriter
    """
    names = specified.split()
    assert set(names) <= set(mujax_pipe.__all__)
    for name in mujax_pipe.__all__:
        assert getattr(mujax_pipe, name).__doc__ or name == "ALGORITHMS"
    for method in ("with_size", "with_num_steps", "num_learner_steps"):
        assert hasattr(mujax_pipe.GMZConfig(), method)
    with pytest.raises(AttributeError, match="no attribute 'load_actors'"):
        mujax_pipe.load_actors  # noqa: B018


def test_the_example_runs(tmp_path):
    """Vector environments from both factories, batches of 256, then one observation at a time."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "cartpole.py"), "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("one episode with the best checkpoint: ")
    assert float(done.stdout.split()[-1]) >= 8
    assert (tmp_path / "checkpoints" / "cartpole" / "best").is_dir()
