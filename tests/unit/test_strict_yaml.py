"""What is accepted means the same to DVC (YAML 1.2) and to Snakemake (YAML 1.1)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML

from mujax_pipe import strict_yaml
from mujax_pipe.errors import UserError

SCALARS = """
1 -1 +1 0 00 07 017 0o17 0x1F 0b11 1_000 1.5 1. .5 -.5 +.5 1_0.5 1e3 1e+3 1e-3 1.e3 1.0e3 1.0e+3
1.0E-3 -1.5e-7 .inf -.inf .nan true True TRUE false yes no on off Yes ON y n null ~ Null 12:30
1:30:00 190:20:30.15 2020-01-01 text a-b = << 1.2.3 v1 CartPole-v1
"""


@pytest.mark.parametrize("written", SCALARS.split())
def test_what_is_accepted_is_the_same_to_both_engines(tmp_path: Path, written: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {written}\n", encoding="utf-8")
    try:
        ours = strict_yaml.load(path)
    except UserError:
        return
    snakemakes = yaml.safe_load(path.read_text(encoding="utf-8"))
    dvcs = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    assert repr(ours) == repr(snakemakes) == repr(dict(dvcs))


@pytest.mark.parametrize("value", ["3", "0.25", "1.0e-3", "true", "null", "text", "'017'", "'on'"])
def test_plain_values_are_accepted(tmp_path: Path, value: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {value}\n", encoding="utf-8")
    assert strict_yaml.load(path) == yaml.safe_load(f"a: {value}")
