"""W&B really runs, offline, and what it wrote is read back; then all writers together."""

import json
import random
import struct
import time

import numpy as np
import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.errors import UserError
from mujax_pipe.training.trackers import WandbWriter
from mujax_pipe.training.writers import create_writer

pytest.importorskip("wandb")

CONFIG = {"config": GMZConfig(batch_size=7), "environment": {"id": "CartPole-v1"}}


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """W&B offline, quiet and with all its files in a temporary folder."""
    for name in ("DVC_ROOT", "WANDB_PROJECT", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name.lower()))


def offline_records(directory):
    """Reads W&B's datastore to its last record, which its service may write after the run's end."""
    (path,) = directory.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        records = parsed(path.read_bytes())
        if records and records[-1].WhichOneof("record_type") == "exit":
            return records
        time.sleep(0.05)
    raise AssertionError(f"{path} lacks its end")


def parsed(data):
    """Reads a LevelDB log: blocks of 32 KiB that hold whole or cut records.

    A record has a checksum (4 bytes), a length (2) and a kind: 1 whole, 2 first, 3 middle, 4 last.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    position, part, records = 7, b"", []
    while position + 7 <= len(data):
        if 32768 - position % 32768 < 7:
            position += 32768 - position % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        position += 7 + length
        if position > len(data):
            break
        part += data[position - length : position]
        if kind in (1, 4):
            records.append(Record.FromString(part))
            part = b""
    return records


def history(records):
    """Returns step -> scalars of the rows."""
    table = {}
    for record in records:
        if record.WhichOneof("record_type") == "history":
            row = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            table[row["_step"]] = {k: v for k, v in row.items() if not k.startswith("_")}
    return table


def test_wandb_offline_holds_scalars_config_and_model(tmp_path):
    best = tmp_path / "best"
    (best / "params").mkdir(parents=True)
    (best / "params/data").write_text("first", encoding="utf-8")
    writer = WandbWriter("my-project", "gmz CartPole seed 0", tmp_path)
    writer.write_config(CONFIG)
    writer.write(100, {"learner/loss": 0.5})
    writer.write(100, {"actor/episode_return": np.float32(20)})
    writer.write(200, {"learner/loss": 0.25})
    writer.log_model(best, "gmz CartPole/seed 0", {"score": 475.0, "config": CONFIG["config"]})
    writer.close()
    records = offline_records(tmp_path)
    assert history(records) == {
        100: {"learner/loss": 0.5, "actor/episode_return": 20.0},
        200: {"learner/loss": 0.25},
    }
    by_kind = {record.WhichOneof("record_type"): record for record in records}
    assert by_kind["run"].run.project == "my-project"
    assert by_kind["run"].run.display_name == "gmz CartPole seed 0"
    artifact = by_kind["artifact"].artifact
    assert (artifact.type, artifact.name) == ("model", "gmz-CartPole-seed-0")
    assert json.loads(artifact.metadata)["config"]["batch_size"] == 7
    assert [entry.path for entry in artifact.manifest.contents] == ["params/data"]
    configs = [
        json.loads(item.value_json)
        for record in records
        for item in record.config.update
        if item.key == "config"
    ]
    assert configs[-1]["batch_size"] == 7


def test_a_resumed_wandb_goes_on_with_its_run(tmp_path):
    ids = []
    for resume_step in (None, 1, None):
        create_writer(["wandb"], tmp_path, title="run", resume_step=resume_step).close()
        ids.append((tmp_path / "wandb/run-id.txt").read_text(encoding="utf-8"))
    assert ids[0] == ids[1] != ids[2]


def test_wandb_runs_side_by_side_are_kept_apart(tmp_path):
    writers = [WandbWriter("p", name, tmp_path / name) for name in ("a", "b")]
    for number, writer in enumerate(writers):
        writer.write(1, {"learner/loss": float(number)})
    for writer in writers:
        writer.close()
    found = [history(offline_records(tmp_path / name)) for name in ("a", "b")]
    assert found == [{1: {"learner/loss": 0.0}}, {1: {"learner/loss": 1.0}}]


def test_wandb_project_may_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "from-outside")
    create_writer(["wandb"], tmp_path, title="run").close()
    (run,) = [r.run for r in offline_records(tmp_path) if r.WhichOneof("record_type") == "run"]
    assert run.project == "from-outside"


def test_a_folder_that_cannot_be_made_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="writer wandb cannot write .*: name another folder"):
        create_writer(["wandb"], tmp_path / "file", title="run")


def test_all_together_leave_random_state_alone_and_print_plainly(tmp_path):
    names = ["console", "csv", "tensorboard", "dvclive", "wandb"]
    for name in names[2:4]:
        pytest.importorskip(name)
    lines = []
    before = random.getstate(), np.random.get_state()[1].tolist()
    folder = tmp_path / "run"
    logger = create_writer(names, folder, title="run", print_line=lines.append)
    logger.write_config(CONFIG)
    logger.write(1, {"learner/loss": 0.5})
    logger.close()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert lines == ["step 1: learner/loss 0.5"]
    made = sorted(path.name for path in folder.iterdir())
    assert made == ["config.json", "dvclive", "metrics.csv", "tensorboard", "wandb"]
