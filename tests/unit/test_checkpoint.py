import errno
import hashlib
import json
import shutil
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.errors import UserError
from mujax_pipe.training.checkpoint import (
    load_metadata,
    load_params,
    load_tree,
    save_best,
    save_tree,
    shaped_like,
)
from tests.fakes import SPEC, tiny_config

# Orbax closes its event loop on tasks that a failed restore left behind; once in a while the
# collector of garbage finds one, in this test or in the next.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def params():
    return GMZ(tiny_config(), SPEC).init(jax.random.key(0))


def files_of(directory):
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def assert_same_bits(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_parameters_and_metadata_come_back_bit_for_bit(tmp_path, params):
    save_best(tmp_path / "best", params, {"step": 7, "score": 0.1})
    restored = load_params(tmp_path / "best", params)
    assert_same_bits(params, restored)
    assert load_metadata(tmp_path / "best") == {"step": 7, "score": 0.1}


def test_shapes_alone_are_enough_to_load(tmp_path, params):
    save_best(tmp_path / "best", params, {})
    shapes = jax.eval_shape(lambda: params)
    assert_same_bits(params, load_params(tmp_path / "best", shapes))


def test_the_same_parameters_make_the_same_bytes_at_any_time_and_place(tmp_path, params):
    save_best(tmp_path / "best", params, {"step": 1})
    time.sleep(0.01)
    save_best(tmp_path / "elsewhere" / "deeper" / "best", params, {"step": 1})
    one, other = files_of(tmp_path / "best"), files_of(tmp_path / "elsewhere" / "deeper" / "best")
    assert one == other
    assert len(one) > len(jax.tree.leaves(params))


def test_nothing_says_when_or_where(tmp_path, params):
    save_best(tmp_path / "best", params, {})
    for path in (tmp_path / "best").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert tmp_path.name.encode() not in content
            assert b"cpu" not in content.lower()
    metadata = json.loads((tmp_path / "best/params/_CHECKPOINT_METADATA").read_text())
    assert {value for key, value in metadata.items() if key.endswith("nsecs")} == {0}


def test_a_save_replaces_the_one_before_and_leaves_nothing_else(tmp_path, params):
    directory = tmp_path / "best"
    save_best(directory, params, {"step": 1})
    changed = jax.tree.map(lambda x: x + 1, params)
    save_best(directory, changed, {"step": 2})
    assert_same_bits(changed, load_params(directory, params))
    assert load_metadata(directory)["step"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_crash_while_saving_leaves_the_old_one(tmp_path, params):
    directory = tmp_path / "best"
    save_best(directory, params, {"step": 1})
    before = files_of(directory)
    with pytest.raises(ValueError, match="JSON"):
        save_best(directory, params, {"score": float("nan")})
    assert files_of(directory) == before
    save_best(directory, params, {"step": 3})  # What the crash left is no obstacle.
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_more_than_ten_layers_keep_their_order(tmp_path):
    """As text, layer 10 comes before layer 2."""
    deep = GMZ(tiny_config(representation_layer_sizes=(8,) * 12), SPEC).init(jax.random.key(0))
    save_best(tmp_path / "best", deep, {})
    assert_same_bits(deep, load_params(tmp_path / "best", deep))


@pytest.mark.parametrize("load", [load_metadata, lambda d: load_params(d, {})])
def test_a_folder_without_a_checkpoint_is_refused_by_name(tmp_path, load):
    with pytest.raises(UserError, match=f"{tmp_path.name}.* holds no checkpoint"):
        load(tmp_path)


def test_unreadable_metadata_is_refused_by_name(tmp_path, params):
    save_best(tmp_path / "best", params, {})
    (tmp_path / "best/metadata.json").write_text("{")
    with pytest.raises(UserError, match=r"metadata.json cannot be read"):
        load_metadata(tmp_path / "best")


def test_damaged_parameters_are_refused_in_one_line(tmp_path, params):
    save_best(tmp_path / "best", params, {})
    for path in (tmp_path / "best/params").rglob("*"):
        if path.is_file() and path.name not in ("_METADATA", "_CHECKPOINT_METADATA"):
            path.write_bytes(b"")
    with pytest.raises(UserError, match="cannot be restored") as error:
        load_params(tmp_path / "best", params)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("lacking", ["_METADATA", "_sharding"])
def test_a_lost_part_is_refused_or_not_missed(tmp_path, params, lacking):
    save_best(tmp_path / "best", params, {})
    (tmp_path / "best/params" / lacking).unlink(missing_ok=True)
    try:
        restored = load_params(tmp_path / "best", params)
    except UserError:
        return
    assert_same_bits(params, restored)


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ({"w": jnp.zeros((2, 3))}, ["(2, 2) for ['w']", "(2, 3) is expected"]),
        ({"v": jnp.zeros((2, 2))}, ["nothing for ['v']", "(2, 2) is expected"]),
        ({"w": jnp.zeros((2, 2)), "x": jnp.zeros(1)}, ["nothing for ['x']", "(1,) is expected"]),
        ({"w": {"x": jnp.zeros((2, 2))}}, ["another network"]),
        ({}, ["(2, 2) for ['w']"]),
    ],
)
def test_parameters_of_another_network_are_refused(tmp_path, like, words):
    save_best(tmp_path / "best", {"w": jnp.zeros((2, 2))}, {})
    with pytest.raises(UserError) as error:
        load_params(tmp_path / "best", like)
    for word in (*words, "another network", "train again"):
        assert word in str(error.value)


def test_a_tree_of_arrays_comes_back_with_its_types(tmp_path):
    tree = {
        "wide": np.array([2**40 + 1, -1]),
        "fine": np.array(1 / 3),
        "deep": {"0": {"flag": np.array([True, False]), "half": np.float32([[0.1]])}},
    }
    save_tree(tmp_path / "arrays", tree)
    back = load_tree(tmp_path / "arrays")
    assert_same_bits(tree, back)
    assert jax.tree.map(lambda x: x.dtype, back) == jax.tree.map(lambda x: x.dtype, tree)


def test_keys_that_are_no_text_are_put_back(tmp_path):
    like = {"layers": {2: np.zeros(1), 10: np.ones(2)}}
    save_tree(tmp_path / "arrays", like)
    assert_same_bits(like, shaped_like(load_tree(tmp_path / "arrays"), like))


def test_a_full_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=20_000))
    save_best(tmp_path / "fits", {"w": np.zeros(100, np.float32)}, {})
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_best(tmp_path / "best", {"w": np.zeros(3_000, np.float32)}, {})
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["fits"]


def test_what_the_file_system_says_through_orbax_is_an_error_of_a_file(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="Not a directory"):
        save_tree(tmp_path / "file" / "tree", {"w": np.zeros(2)})
