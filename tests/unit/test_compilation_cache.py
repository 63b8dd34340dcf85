import os
import subprocess
import sys

import pytest

from mujax_pipe import compilation_cache

# Prints the sum of a little program, and whether it had to be compiled.
PROGRAM = """
import sys
from mujax_pipe import compilation_cache, runtime
runtime.prepare(int(sys.argv[1]))
import jax, jax.numpy as jnp
import jax._src.monitoring as monitoring
events = []
monitoring.register_event_listener(lambda name, **_: events.append(name))
x = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())(jnp.arange(12.0).reshape(3, 4) / 7)
hits = sum("cache_hits" in name for name in events)
print(float(x).hex(), "warm" if hits else "cold", flush=True)
if len(sys.argv) > 2:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    return tmp_path / "mujax_pipe" / "compiled"


def run(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *(arguments or ("1",))],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "Error" not in done.stderr, done.stderr
    return done.stdout.split()


def test_the_second_process_finds_what_the_first_compiled_and_the_same_bits(home):
    number, found = run()
    assert found == "cold"
    assert run() == [number, "warm"]
    assert run(JAX_ENABLE_COMPILATION_CACHE="false") == [number, "cold"]
    assert not [*home.glob("process-*")]


def test_other_threads_are_another_cache(home):
    run()
    assert run("2")[1] == "cold"


def test_a_killed_process_leaves_nothing_half_made(home):
    assert run("1", "kill")[1] == "cold"
    (left,) = home.glob("process-*")
    assert run()[1] == "cold"
    assert run()[1] == "warm"
    assert left.exists()
    week_ago = 0
    os.utime(left, (week_ago, week_ago))
    run()
    assert not left.exists()


def test_a_users_own_folder_is_left_to_jax(home, tmp_path):
    own = tmp_path / "own"
    run(JAX_COMPILATION_CACHE_DIR=str(own), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    assert [*own.iterdir()]
    assert not home.exists()


def test_the_folder_of_the_process_that_started_this_one_is_not_the_users(home):
    inherited = str(home / "process-of-the-parent")
    run(JAX_COMPILATION_CACHE_DIR=inherited)
    assert run(JAX_COMPILATION_CACHE_DIR=inherited)[1] == "warm"


def test_without_a_place_to_write_each_process_compiles(home, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(XDG_CACHE_HOME=str(blocked))[1] == "cold"
    assert run(XDG_CACHE_HOME=str(blocked))[1] == "cold"


def test_the_oldest_programs_go_when_there_are_too_many(home, monkeypatch):
    monkeypatch.setattr(compilation_cache, "_LARGEST", 25)
    shared = home / "abc"
    shared.mkdir(parents=True)
    for age in range(4):
        program = shared / f"{age}-cache"
        program.write_bytes(b"0123456789")
        os.utime(program, (1000 - age, 1000 - age))
    compilation_cache._sweep(home)
    assert sorted(path.name for path in shared.iterdir()) == ["0-cache", "1-cache"]
