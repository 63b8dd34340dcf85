"""params.yaml: every mistake is one line that names the file, the key and the value."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.errors import UserError
from mujax_pipe.layout import Cell
from mujax_pipe.params import Params, load_params

TEXT = """\
grid:
  algo: [gmz]
  env: [cartpole, blackjack]
  seed: [0, 1, 2]
demo:
  algo: [gmz]
  env: [blackjack]
  seed: [1]
run:
  evaluations: 7
  threads: 1
algorithms:
  gmz:
    size: XS
    batch_size: 64
    learning_rate: 0.002
environments:
  cartpole:
    id: CartPole-v1
    wrappers: []
    num_env_steps: 20000
    selection_episodes: 20
  blackjack:
    id: Blackjack-v1
    wrappers: [flatten]
    num_env_steps: 30000
    selection_episodes: 4000
overrides:
  gmz:
    cartpole: {}
    blackjack: {batch_size: 32, value_layer_sizes: [8, 8]}
evaluation:
  cartpole:
    episodes: 100
  blackjack:
    episodes: 20000
search:
  simulations: [0, 8]
  episodes: {cartpole: 10, blackjack: 100}
references:
  cartpole: {score: 500, source: limit}
  blackjack: {score: -0.0431, source: optimum}
analysis:
  interval: t
  confidence: 0.95
  threshold: 0.9
  bootstrap_samples: 2000
  bootstrap_seed: 0
figures:
  dpi: 200
  algorithm_names: {gmz: Gumbel MuZero}
  colours: {gmz: "#0072B2"}
"""


def load(folder: Path, old: str = "", new: str = "", text: str = TEXT) -> Params:
    assert old in text
    path = folder / "params.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return load_params(path)


def error(folder: Path, old: str, new: str) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, old, new)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(folder / "params.yaml"))
    return message


def test_the_published_file_is_valid() -> None:
    path = Path(__file__).parents[2] / "params.yaml"
    params = load_params(path)
    assert set(params.cells("demo")) <= set(params.cells("all"))


def test_loading_imports_no_jax() -> None:
    code = (
        "import sys, mujax_pipe.params; sys.exit(bool({'jax', 'pandas', 'dvc'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_cells_come_in_order(tmp_path: Path) -> None:
    params = load(tmp_path)
    names = [cell.name for cell in params.cells()]
    assert names[:4] == [
        "gmz/cartpole/seed-0",
        "gmz/cartpole/seed-1",
        "gmz/cartpole/seed-2",
        "gmz/blackjack/seed-0",
    ]
    assert len(names) == 6
    assert params.cells("demo") == (Cell(algo="gmz", env="blackjack", seed=1),)
    with pytest.raises(UserError, match="grid is 'tiny': allowed are all, demo"):
        params.cells("tiny")


def test_one_cell_may_have_a_seed_outside_the_grid(tmp_path: Path) -> None:
    params = load(tmp_path)
    assert params.cell("gmz", "cartpole", 77).seed == 77
    for arguments in (("smz9", "cartpole", 0), ("gmz", "pong", 0), ("gmz", "cartpole", -1)):
        with pytest.raises(UserError, match="allowed are"):
            params.cell(*arguments)


def test_config_is_defaults_then_algorithm_then_overrides(tmp_path: Path) -> None:
    params = load(tmp_path)
    cartpole = params.config(params.cell("gmz", "cartpole", 0))
    blackjack = params.config(params.cell("gmz", "blackjack", 0))
    assert (cartpole.batch_size, blackjack.batch_size) == (64, 32)
    assert (cartpole.learning_rate, blackjack.learning_rate) == (0.002, 0.002)
    assert (
        cartpole.embedding_dim
        == blackjack.embedding_dim
        == GMZConfig().with_size("XS").embedding_dim
    )
    assert blackjack.value_layer_sizes == (8, 8)
    assert cartpole.value_layer_sizes == GMZConfig().with_size("XS").value_layer_sizes
    assert cartpole.discount == GMZConfig().discount


def test_learner_steps_follow_from_environment_steps(tmp_path: Path) -> None:
    params = load(tmp_path)
    config = params.config(params.cell("gmz", "cartpole", 0))
    assert config.num_learner_steps == config.learner_steps_within(20000)
    # The last evaluation falls on the last step, and there are no more than were asked for.
    every = params.evaluation_config(params.cell("gmz", "cartpole", 0)).every
    assert 6 * every < config.num_learner_steps <= 7 * every
    assert params.evaluation_config(params.cell("gmz", "blackjack", 0)).num_episodes == 4000


def test_settings_hold_what_a_stage_reads_and_no_more(tmp_path: Path) -> None:
    before = load(tmp_path)
    after = load(tmp_path, "blackjack: {batch_size: 32", "blackjack: {batch_size: 16")
    for env, same in (("cartpole", True), ("blackjack", False)):
        cell = before.cell("gmz", env, 0)
        assert (before.train_settings(cell) == after.train_settings(cell)) is same
        assert before.evaluate_settings(cell) == after.evaluate_settings(cell)
    # The table of hyperparameters says what is tuned.
    assert before.analysis_settings() != after.analysis_settings()
    other = load(tmp_path, "num_env_steps: 20000", "num_env_steps: 30000")
    assert before.analysis_settings() == other.analysis_settings()
    figures = load(tmp_path, "dpi: 200", "dpi: 100")
    assert before.figure_settings("demo") != figures.figure_settings("demo")
    assert before.analysis_settings("demo") == figures.analysis_settings("demo")
    settings = json.loads(before.train_settings(before.cell("gmz", "cartpole", 2)))
    assert list(settings) == sorted(settings)
    assert settings["overrides.gmz.cartpole"] == {}
    assert settings["run"] == {"evaluations": 7, "threads": 1}


def test_order_in_the_file_does_not_change_settings(tmp_path: Path) -> None:
    before = load(tmp_path)
    swapped = "learning_rate: 0.002\n    batch_size: 64"
    after = load(tmp_path, "batch_size: 64\n    learning_rate: 0.002", swapped)
    cell = before.cell("gmz", "cartpole", 0)
    assert before.train_settings(cell) == after.train_settings(cell)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "batch_size: 64",
            "batchsize: 64",
            ["algorithms.gmz.batchsize", "did you mean batch_size?"],
        ),
        ("evaluations: 7", "evaluation: 7", ["run.evaluation", "did you mean evaluations?"]),
        ("analysis:", "analyses:", ["analyses", "did you mean analysis?"]),
        ("  dpi: 200\n", "", ["figures.dpi is missing"]),
        (
            "batch_size: 64",
            "batch_size: big",
            ["algorithms.gmz.batch_size is 'big'", "whole number"],
        ),
        ("batch_size: 64", "batch_size: 0", ["algorithms.gmz.batch_size is 0", "at least 1"]),
        ("batch_size: 64", "batch_size: true", ["algorithms.gmz.batch_size is True"]),
        ("size: XS", "size: XXS", ["algorithms.gmz.size is 'XXS'", "XS, S, M, L, XL"]),
        ("{batch_size: 32", "{batch_size: -1", ["overrides.gmz.blackjack.batch_size is -1"]),
        (
            "batch_size: 64",
            "num_learner_steps: 9",
            ["algorithms.gmz.num_learner_steps", "remove it"],
        ),
        ("confidence: 0.95", "confidence: 95", ["analysis.confidence is 95", "at most"]),
        ("seed: [0, 1, 2]", "seed: [0, 1, 1]", ["grid.seed has 1 twice"]),
        ("algo: [gmz]", "algo: [gmz, gmz]", ["grid.algo has 'gmz' twice"]),
        ("seed: [0, 1, 2]", "seed: [0, 1, 1.5]", ["grid.seed[2] is 1.5"]),
        ("seed: [0, 1, 2]", "seed: 3", ["grid.seed is 3", "a list"]),
        ("seed: [0, 1, 2]", "seed: []", ["grid.seed", "empty"]),
        ("algo: [gmz]", "algo: [gmx]", ["grid.algo has 'gmx'", "allowed are"]),
        (
            "env: [cartpole,",
            "env: [cart-pole,",
            ["grid.env has 'cart-pole'", "dash", "'cart_pole'"],
        ),
        ("env: [cartpole,", "env: [CartPole,", ["grid.env has 'CartPole'", "lower-case"]),
        ("env: [cartpole,", "env: [acrobot,", ["overrides.gmz has no acrobot", "grid.env"]),
        ("    cartpole: {}\n", "", ["overrides.gmz has no cartpole", "add `cartpole: {}`"]),
        ("  cartpole:\n    episodes: 100\n", "", ["evaluation has no cartpole", "grid.env"]),
        ("    cartpole: {}\n", "    cartpole:\n", ["overrides.gmz.cartpole is None", "a mapping"]),
        ("    cartpole: {}\n", "    cartpol: {}\n", ["overrides.gmz.cartpol", "mean cartpole?"]),
        ("seed: [1]", "seed: [5]", ["demo.seed has 5", "allowed are 0, 1, 2"]),
        (
            "num_env_steps: 20000",
            "num_env_steps: 900",
            ["num_env_steps is 900", "first learner step"],
        ),
        ("run:\n", "run: 3\nfigure:\n", ["figure: unknown key", "did you mean figures?"]),
        ("simulations: [0, 8]", "simulations: [0, 5000]", ["search.simulations[1]", "4096"]),
        ("source: limit}", "source: limit, base: low}", ["cartpole.base is 'low'", "a number"]),
        ("source: limit}", "sauce: limit}", ["sauce: unknown key", "did you mean source?"]),
        ("score: 500, source: limit", "score: 500", ["cartpole.source is missing"]),
        ("dpi: 200", "dpi: [200", ["line", "no valid YAML"]),
        ("dpi: 200", "dpi: 200\n  dpi: 300", ["line 51", "dpi stands twice in figures"]),
        ('"#0072B2"', "blue", ["figures.colours.gmz is 'blue'", "#RRGGBB"]),
        ('colours: {gmz: "', 'colours: {gzm: "', ["figures.colours.gzm", "did you mean gmz?"]),
        ("grid:", "run: 1\ngrid:", ["run stands twice in the top level"]),
        ("seed: [0, 1, 2]", "seed: [0, 1, 2.]", ["grid.seed[2] is 2.0", "whole number"]),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    message = error(tmp_path, old, new)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("1e-3", "write 0.001"),
        ("1e3", "write 1000"),
        ("1.0e3", "write 1000.0"),
        ("017", "write 17"),
        ("0o17", "in decimals"),
        ("0x10", "in decimals"),
        ("1_000", "write 1000"),
        ("12:30:00", "in decimals"),
        ("on", "true or false"),
        ("No", "true or false"),
    ],
)
def test_what_the_dialects_read_differently_is_refused(
    tmp_path: Path, written: str, advice: str
) -> None:
    message = error(tmp_path, "learning_rate: 0.002", f"learning_rate: {written}")
    assert f"line 16: algorithms.gmz.learning_rate is {written}: YAML 1.1 and YAML 1.2" in message
    assert advice in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "no such file"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"", "is None"),
        (b"- 1\n", "a mapping"),
        (b"a: &x [*x]\n", "nested without end"),
        (b"a: {<<: {b: 1}}\n", "merge keys"),
        (b"a: !!python/object:os.system x\n", "allowed are numbers and texts"),
        (b"1: 2\n", "a key of the top level is 1"),
    ],
)
def test_a_file_that_is_no_parameters(tmp_path: Path, content: Any, part: str) -> None:
    path = tmp_path / "params.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_params(path)
    assert part in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
