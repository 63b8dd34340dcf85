import json

import numpy as np
import pytest

from mujax_pipe.training.checkpoint import save_best
from mujax_pipe.training.differences import first_difference


@pytest.fixture
def pair(tmp_path):
    """Writes a file twice and compares."""

    def compare(name, old, new):
        for folder, content in (("old", old), ("new", new)):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).write_bytes(content.encode())
        return first_difference(tmp_path / "old" / name, tmp_path / "new" / name)

    return compare


def test_the_same_is_no_difference(pair):
    assert pair("a.json", '{"a": 1}', '{"a": 1}') is None


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "a.json",
            json.dumps({"a": 1, "b": {"c": [1, 2], "d": 0.1}}),
            json.dumps({"a": 1, "b": {"c": [1, 2], "d": 0.2}}),
            "b.d is 0.2 here, 0.1 published",
        ),
        ("a.json", '{"a": 1, "b": 2}', '{"a": 1}', "b is only in the published one"),
        ("a.json", '{"a": 1}', '{"a": 1, "b": 2}', "b is only here"),
        # Equal values in other bytes are a difference too.
        ("a.json", '{"a": 1}', '{"a":  1}', "byte 6 (9 bytes here, 8 published)"),
        ("a.json", '{"a": 1}', "{", "byte 1 (1 bytes here, 8 published)"),
        ("a.csv", "x,y\n1,2\n3,4\n", "x,y\n1,2\n3,5\n", "line 3, y is '5' here, '4' published"),
        ("a.csv", "x\n1\n", "x\n1\n2\n", "line 3, x is only here"),
        ("a.txt", "abc", "abd", "byte 2 (3 bytes here, 3 published)"),
    ],
)
def test_the_first_value_that_differs_is_named(pair, name, old, new, said):
    assert pair(name, old, new) == said


def weights():
    rng = np.random.default_rng(0)
    return {"act": {"w": rng.normal(size=(3, 2)).astype(np.float32)}, "b": np.zeros(2, np.float32)}


def change(tree, kind):
    if kind == "last bit":
        tree["act"]["w"][1, 1] = np.nextafter(tree["act"]["w"][1, 1], np.float32(9.0))
    elif kind == "sign of zero":
        tree["b"][1] = -0.0
    elif kind == "shape":
        tree["b"] = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "last bit",
            "act.w at [1, 1] is 0.10490012168884277 here, 0.10490011423826218 published",
        ),
        ("sign of zero", "b at [1] is -0.0 here, 0.0 published"),
        ("shape", "b is float32[3] here, float32[2] published, and 1 more of its files differ"),
    ],
)
def test_a_checkpoint_names_the_parameter(tmp_path, kind, said):
    tree = weights()
    save_best(tmp_path / "old", tree, {"step": 1})
    save_best(tmp_path / "same", weights(), {"step": 1})
    assert first_difference(tmp_path / "old", tmp_path / "same") is None
    change(tree, kind)
    save_best(tmp_path / "new", tree, {"step": 1})
    assert first_difference(tmp_path / "old", tmp_path / "new") == said


# TensorStore may answer for the arrays beside the damaged one when Orbax has closed its event loop.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_damaged_checkpoint_is_a_difference_and_no_crash(tmp_path):
    for name in ("old", "new"):
        save_best(tmp_path / name, weights(), {"step": 1})
    chunk = next(path for path in (tmp_path / "old" / "params" / "b").iterdir() if path.name == "0")
    chunk.write_bytes(chunk.read_bytes()[:3])
    said = first_difference(tmp_path / "old", tmp_path / "new")
    assert said == "params/b/0, in a checkpoint that cannot be read"
    other = weights() | {"b": np.zeros(2, np.float16)}
    save_best(tmp_path / "old", other, {"step": 1})
    assert "b is float32[2] here, float16[2] published" in str(
        first_difference(tmp_path / "old", tmp_path / "new")
    )


def test_metadata_and_missing_files_of_a_checkpoint_are_named(tmp_path):
    for name, step in (("old", 1), ("new", 2)):
        save_best(tmp_path / name, weights(), {"step": step})
    said = first_difference(tmp_path / "old", tmp_path / "new")
    assert said == "metadata.json: step is 2 here, 1 published"
    (tmp_path / "new" / "metadata.json").unlink()
    said = first_difference(tmp_path / "old", tmp_path / "new")
    assert said == "metadata.json is only in the published one"
    # What Snakemake leaves in a folder is no part of it.
    save_best(tmp_path / "new", weights(), {"step": 1})
    (tmp_path / "new" / ".snakemake_timestamp").touch()
    assert first_difference(tmp_path / "old", tmp_path / "new") is None
