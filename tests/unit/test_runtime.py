import hashlib
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe import runtime

EXACT = "--xla_cpu_enable_platform_dependent_math=false"
WIDEST = "--xla_cpu_max_isa=AVX2"
EXTRA = " with --xla_cpu_enable_fast_math=true --xla_z=1"
INTEL = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 63
flags\t\t: fpu sse2 {flags}

processor\t: 1
vendor_id\t: Other
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What is set here does not outlive the test."""
    for name in (
        *("NPROC", "XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL"),
        *("ONEDNN_MAX_CPU_ISA", "NPY_DISABLE_CPU_FEATURES"),
    ):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(runtime.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(runtime, "_settled", runtime.threads())


def test_threads_and_exact_instructions_are_settled_and_other_flags_stay(monkeypatch):
    monkeypatch.setattr(runtime, "_started", lambda: False)
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=x {EXACT} --xla_cpu_max_isa=AVX --xla_b=1")
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "SSE41")
    for threads in (3, 1):
        runtime.prepare(threads)
        assert runtime.threads() == threads
        assert os.environ["NPROC"] == str(threads)
        assert os.environ["XLA_FLAGS"] == f"--xla_dump_to=x --xla_b=1 {EXACT} {WIDEST}"
        assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"
        assert "X86_V4" in os.environ["NPY_DISABLE_CPU_FEATURES"]
        assert "DNNL_MAX_CPU_ISA" not in os.environ


def test_on_other_makers_cpus_xla_is_not_held_to_instructions_of_x86(monkeypatch):
    monkeypatch.setattr(runtime, "_started", lambda: False)
    monkeypatch.setattr(runtime.platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("XLA_FLAGS", "")
    runtime.prepare()
    assert os.environ["XLA_FLAGS"] == EXACT


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("JAX_ENABLE_X64", False),
        ("JAX_RANDOM_SEED_OFFSET", False),
        ("JAX_DEFAULT_PRNG_IMPL", False),
        ("JAX_SETTING_OF_NEXT_YEAR", False),
        ("JAX_PLATFORMS", True),
        ("JAX_COMPILATION_CACHE_DIR", True),
        ("JAX_LOGGING_LEVEL", True),
    ],
)
def test_of_jaxs_settings_only_those_stay_that_have_no_say_in_numbers(monkeypatch, name, kept):
    monkeypatch.setattr(runtime, "_started", lambda: False)
    monkeypatch.setenv(name, "1")
    runtime.prepare()
    assert (name in os.environ) == kept


def test_threads_are_what_was_settled_and_not_what_the_shell_says(monkeypatch):
    monkeypatch.setenv("NPROC", "abc")
    assert runtime.threads() == 1


def test_once_jax_has_started_nothing_is_settled_any_more(monkeypatch):
    jax.devices()
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    runtime.prepare(8)
    assert runtime.threads() == 1
    assert os.environ["JAX_ENABLE_X64"] == "1"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (EXACT, ""),
        (f"{EXACT} --xla_dump_to=x {WIDEST}", ""),
        (f"--xla_z=1 {EXACT} --xla_cpu_enable_fast_math=true", EXTRA),
    ],
)
def test_flags_that_may_change_numbers_are_a_class_of_their_own(monkeypatch, flags, named):
    monkeypatch.setenv("XLA_FLAGS", EXACT)
    plain = runtime.machine_class()
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert runtime.machine_class() == plain + named


def test_the_reciprocal_square_root_is_exact():
    """NumPy's root and division are rounded as IEEE 754 has it, on every CPU."""
    x = np.random.default_rng(0).uniform(1e-6, 9.0, 10_000).astype(np.float32)
    expected = np.float32(1) / np.sqrt(x)
    np.testing.assert_array_equal(jax.jit(lambda x: 1.0 / jnp.sqrt(x))(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.lax.rsqrt)(x), expected)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("avx avx2 fma avx512f", "x86_64 with AVX-512"),
        ("avx512f fma avx2", "x86_64 with AVX-512"),
        ("avx avx2 fma", "x86_64 GenuineIntel 6 63"),
        ("avx", "x86_64 GenuineIntel 6 63"),
    ],
)
def test_cpus_with_the_same_instructions_are_of_one_class(monkeypatch, flags, expected):
    monkeypatch.setattr(runtime.Path, "read_text", lambda *_, **__: INTEL.format(flags=flags))
    assert runtime.machine_class() == expected


def test_a_machine_without_cpuinfo_is_named_by_python(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(runtime.Path, "read_text", missing)
    monkeypatch.setattr(runtime.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(runtime.platform, "processor", lambda: "arm")
    assert runtime.machine_class() == "arm64 arm"
    assert runtime.peak_memory_mb() > 10


# The order of these sums is the choice of the CPU's model, unless XLA is told.
SHAPES = ((64, 6, 2), (64, 6, 4), (384, 5), (384, 7), (384, 31))


@pytest.mark.skipif("AVX-512" not in runtime.machine_class(), reason="bits of another class")
def test_a_sum_has_the_bits_of_this_class():
    rng = np.random.default_rng(0)
    total = hashlib.sha256()
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(np.float32)
        leading = tuple(range(x.ndim - 1))
        summed = jax.jit(lambda x, axes=leading: (x.sum(axes), x.sum(), jnp.exp(x).sum(axes)))(x)
        for value in summed:
            total.update(np.asarray(value).tobytes())
    assert total.hexdigest()[:16] == "b9c798c841a3172e"
