"""Checkpoints in a place of the user's own: a folder, or a bucket behind an S3 server."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from mujax_pipe.layout import CellFiles
from mujax_pipe.params import load_params

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Starts an S3 server on loopback with an empty bucket; returns its address."""
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "someone"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("NO_PROXY", "127.0.0.1"),
    ):
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="checkpoints")
    yield address
    server.stop()


def files_below(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository")
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_checkpoint_is_pushed_and_pulled(
    kind: str, request: pytest.FixtureRequest, new_project: Callable[..., Any], tmp_path: Path
) -> None:
    """As docs/experiments.md says: one command adds the place, another fills it."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), "clone"], cwd=tmp_path, check=True)
    clone = new_project(tmp_path / "clone")
    cell = load_params(clone.root / "params.yaml").cells()[0]
    stage, best = f"train@{cell.algo}-{cell.env}-{cell.seed}", CellFiles(cell, clone.root).best
    clone.run("dvc", "pull", stage)
    before = files_below(best)
    assert before

    url = str(tmp_path / "mine") if kind == "folder" else "s3://checkpoints/mujax"
    clone.run("dvc", "remote", "add", "--default", "mine", url)
    if kind == "s3":
        endpoint = request.getfixturevalue("bucket")
        clone.run("dvc", "remote", "modify", "mine", "endpointurl", endpoint)
    assert "pushed" in clone.run("dvc", "push", stage).stdout

    for folder in (best, clone.root / ".dvc/cache", clone.root / "results/store"):
        shutil.rmtree(folder)
    clone.run("dvc", "pull", stage)
    assert files_below(best) == before
