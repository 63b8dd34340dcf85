import jax
import numpy as np
import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.training import replay as replay_module
from mujax_pipe.training.replay import Replay, available_memory, empty_transition
from tests.fakes import SPEC, numbered, tiny_config

ROWS, WINDOW, LENGTH = 2, 3, 7


@pytest.fixture(scope="module")
def replay():
    config = tiny_config(
        unroll_steps=1,
        bootstrap_steps=1,
        num_envs=ROWS,
        max_replay_size=ROWS * LENGTH + 1,  # One that no row can hold.
        min_replay_size=6,
        batch_size=1024,
        chunk_steps=2,
    )
    return Replay(config, SPEC)


@pytest.fixture(scope="module")
def sample(replay):
    return jax.jit(replay.sample)


def filled(replay, steps, chunk=1):
    state = replay.init()
    for first in range(0, steps, chunk):
        state = replay.add(state, numbered(ROWS, chunk, first))
    return state


def starts(windows):
    """Returns row and first time of each window, after checking that its times are consecutive."""
    row, time = np.divmod(np.asarray(windows.reward).astype(int), 1000)
    np.testing.assert_array_equal(row, np.repeat(row[:, :1], WINDOW, axis=1))
    np.testing.assert_array_equal(time, time[:, :1] + np.arange(WINDOW))
    return row[:, 0], time[:, 0]


@pytest.mark.parametrize(
    ("steps", "first", "last"),
    [
        (3, 0, 0),  # one window a row
        (5, 0, 2),
        (7, 0, 4),  # exactly full
        (8, 1, 5),  # the oldest step is gone
        (10, 3, 7),  # the seam lies in the middle
        (14, 7, 11),  # wrapped exactly once
        (15, 8, 12),
    ],
)
def test_exactly_the_whole_windows_are_sampled(replay, sample, steps, first, last):
    row, time = starts(sample(filled(replay, steps), jax.random.key(steps)))
    assert set(row.tolist()) == {0, 1}
    assert set(time.tolist()) == set(range(first, last + 1))


@pytest.mark.parametrize("chunk", [2, 3, 7])
def test_chunks_that_do_not_divide_the_length_wrap_around(replay, sample, chunk):
    steps = 7 * chunk
    _, time = starts(sample(filled(replay, steps, chunk), jax.random.key(0)))
    assert set(time.tolist()) == set(range(steps - LENGTH, steps - WINDOW + 1))


@pytest.mark.parametrize("steps", [6, 7, 9])
def test_windows_are_drawn_uniformly(replay, sample, steps):
    """Of 12 * 1024 draws each of n windows has 12 * 1024 / n, within 5 standard deviations."""
    state = filled(replay, steps)
    counts = {}
    for number in range(12):
        row, time = starts(sample(state, jax.random.key(number)))
        for window in zip(row.tolist(), time.tolist(), strict=True):
            counts[window] = counts.get(window, 0) + 1
    total, kinds = 12 * 1024, ROWS * (min(steps, LENGTH) - WINDOW + 1)
    assert len(counts) == kinds
    spread = 5 * np.sqrt(total / kinds * (1 - 1 / kinds))
    np.testing.assert_allclose(list(counts.values()), total / kinds, atol=spread)


def test_every_field_comes_back_as_it_went_in(replay, sample):
    state, stored = replay.init(), numbered(ROWS, 6)
    state = replay.add(state, stored)
    windows = sample(state, jax.random.key(0))
    row, time = starts(windows)
    at = (row[:, None], time[:, None] + np.arange(WINDOW))
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[at], y), stored, windows)


def test_a_sample_is_a_function_of_state_and_key(replay, sample):
    state = filled(replay, 7)
    one, again, other = (sample(state, jax.random.key(k)).reward for k in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_num_bytes_is_what_is_allocated(replay):
    allocated = sum(x.nbytes for x in jax.tree.leaves(replay.init().experience))
    assert replay.num_bytes == allocated
    # 2 observations, 6 numbers, a flag, 3 flags and 3 probabilities, 14 times.
    assert allocated == 14 * (2 * 4 + 6 * 4 + 1 + 3 + 3 * 4)


def test_an_empty_transition_has_the_types_that_the_actor_makes():
    kinds = jax.tree.map(lambda x: (x.shape, x.dtype), empty_transition(SPEC))
    assert kinds == jax.tree.map(lambda x: (x.shape[2:], x.dtype), numbered(1, 1))


def test_a_buffer_that_does_not_fit_is_refused_with_numbers(replay, monkeypatch):
    monkeypatch.setattr(replay_module, "available_memory", lambda: replay.num_bytes - 1)
    with pytest.raises(UserError) as error:
        replay.init()
    message = str(error.value)
    assert "max_replay_size of 14 transitions" in message
    assert "lower max_replay_size to 6" in message


def test_the_refusal_counts_in_megabytes(monkeypatch):
    replay = Replay(tiny_config(max_replay_size=100_000_000), SPEC)
    monkeypatch.setattr(replay_module, "available_memory", lambda: 50_000_000)
    with pytest.raises(UserError, match=r"100,000,000 transitions takes 4,800 MB and 50 MB are "
                                        r"free: lower max_replay_size to 520,833"):  # fmt: skip
        replay.init()


@pytest.mark.parametrize("free", [0, 1])
def test_a_buffer_that_just_fits_is_allocated(replay, monkeypatch, free):
    monkeypatch.setattr(replay_module, "available_memory", lambda: replay.num_bytes + free)
    assert replay.init().experience.reward.shape == (ROWS, LENGTH)


def test_a_machine_that_does_not_tell_its_memory_is_trusted(replay, monkeypatch):
    monkeypatch.setattr(replay_module, "available_memory", lambda: None)
    replay.init()


def test_available_memory_is_a_plausible_number():
    assert 10**7 < available_memory() < 10**14
