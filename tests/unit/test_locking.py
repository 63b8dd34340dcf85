import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mujax_pipe
from mujax_pipe.errors import UserError
from mujax_pipe.locking import holder, only_one

HOLD = """
import sys, time
from pathlib import Path
from mujax_pipe.locking import only_one
with only_one(Path(sys.argv[1]), "the cell"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a" / "lock")],
        env={**os.environ, "PYTHONPATH": str(Path(mujax_pipe.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_with_the_owner_and_the_time(tmp_path, other):
    path = tmp_path / "a" / "lock"
    with pytest.raises(UserError) as caught, only_one(path, "gmz/cartpole/seed-0"):
        pass
    host = socket.gethostname()
    said = str(caught.value)
    assert said.startswith(f"gmz/cartpole/seed-0 is in the hands of process {other.pid} on {host}")
    assert time.strftime("since %Y-") in said
    found = holder(path)
    assert (found["pid"], found["host"]) == (other.pid, host)
    assert abs(found["since"] - time.time()) < 60


def test_death_releases_it(tmp_path, other):
    path = tmp_path / "a" / "lock"
    other.kill()
    other.wait()
    assert holder(path) is None
    with only_one(path, "x"):
        assert holder(path)["pid"] == os.getpid()
    assert holder(path) is None


def test_it_is_released_after_an_error_and_may_be_taken_again(tmp_path):
    path = tmp_path / "lock"
    assert holder(path) is None
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), only_one(path, "x"):
            1 / 0  # noqa: B018


def test_whoever_looks_is_no_obstacle(tmp_path):
    """`holder` locks for a moment; a start at that moment waits for it."""
    path = tmp_path / "lock"
    looking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys, time\n"
            "file = open(sys.argv[1], 'a+')\n"
            "fcntl.flock(file, fcntl.LOCK_SH)\n"
            "print('looks', flush=True)\n"
            "time.sleep(0.3)\n",
            str(path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert looking.stdout.readline() == "looks\n"
    with only_one(path, "x"):
        assert looking.wait(5) == 0
    looking.communicate()
