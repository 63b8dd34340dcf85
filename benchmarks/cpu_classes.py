"""Which operations give other bits on another class of CPU, piece by piece.

    python benchmarks/cpu_classes.py                         # natively, several settings
    python benchmarks/cpu_classes.py --qemu Haswell          # and under emulation (slow)

Each setting runs in a process of its own and prints a digest of every piece; the table shows where
they differ from the native one. Emulation needs qemu-user (Debian: apt install qemu-user).
"""

import argparse
import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# XLA flags of each setting; the last is what every run of the package settles.
EXACT = "--xla_cpu_enable_platform_dependent_math=false --xla_cpu_multi_thread_eigen=false"
PREPARED = "as prepared"
SETTINGS = {"default": "", "exact": EXACT, PREPARED: ""}


def pieces() -> dict[str, object]:
    """Returns what is computed, by name: plain operations first, a learner step last."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from mujax_pipe.agents import GMZ
    from mujax_pipe.agents.types import EnvironmentSpec
    from mujax_pipe.config import GMZConfig
    from mujax_pipe.training.learner import Learner
    from mujax_pipe.training.replay import Replay

    rng = np.random.default_rng(0)
    x = rng.normal(size=4096).astype(np.float32)
    a, b = rng.normal(size=(2, 64, 64)).astype(np.float32)
    found: dict[str, object] = {
        "NumPy: random numbers": x,
        "NumPy: exp, log": np.log(np.exp(x) + 1),
        "NumPy: sine, cosine": np.sin(x) + np.cos(x),
        "NumPy: tangent, arc tangent": np.tan(x) + np.arctan(x),
        "NumPy: sum": x.sum(),
        "NumPy: matrix product": a @ b,
        "XLA: random numbers": jax.random.normal(jax.random.key(0), (4096,)),
        "XLA: add, multiply": jax.jit(lambda x: x * x + x)(x),
        "XLA: exp": jax.jit(jnp.exp)(x),
        "XLA: log": jax.jit(lambda x: jnp.log(jnp.abs(x)))(x),
        "XLA: tanh, erf": jax.jit(lambda x: jnp.tanh(x) + jax.lax.erf(x))(x),
        "XLA: square root, division": jax.jit(lambda x: 1 / jnp.sqrt(jnp.abs(x)))(x),
        "XLA: sum": jax.jit(jnp.sum)(x),
        "XLA: sum of a batch, two columns": jax.jit(lambda x: x.sum((0, 1)))(
            x[:768].reshape(64, 6, 2)
        ),
        "XLA: sum of a batch, whole": jax.jit(jnp.sum)(x[:768].reshape(64, 6, 2)),
        "XLA: matrix product": jax.jit(jnp.dot)(a, b),
        "XLA: narrow matrix product": jax.jit(lambda a, b: a.T @ b)(a, b[:, :2]),
        "XLA: softmax": jax.jit(jax.nn.softmax)(a),
    }
    spec = EnvironmentSpec(observation_dim=4, num_actions=2)
    config = GMZConfig(
        batch_size=8, num_simulations=4, num_envs=2, min_replay_size=40, max_replay_size=80
    ).with_size("XS")
    algorithm = GMZ(config, spec)
    params = algorithm.init(jax.random.key(0))
    observation = rng.normal(size=(8, 4)).astype(np.float32)
    found["network: initial parameters"] = params
    found["network: values"] = jax.jit(algorithm.value)(params, observation)
    noise = jax.tree.map(
        lambda leaf: leaf + rng.normal(size=leaf.shape).astype(np.float32) / 8, params
    )
    found["network: values, random weights"] = jax.jit(algorithm.value)(noise, observation)
    search = jax.jit(algorithm.search, static_argnames="explore")
    found["search"] = search(
        noise, jax.random.key(1), observation, np.zeros((8, 2), bool), np.int32(0), explore=True
    )
    replay = Replay(config, spec)
    learner = Learner(algorithm, replay, 0)
    state = learner.init(noise)
    found["learner: replay"] = replay.init()
    chunk = jax.tree.map(
        lambda leaf: rng.integers(0, 2, size=(2, 40, *leaf.shape[2:])).astype(leaf.dtype),
        replay.init().experience,
    )
    chunk = dataclasses.replace(
        chunk,
        policy_probs=np.full_like(chunk.policy_probs, 0.5),
        invalid_actions=np.zeros_like(chunk.invalid_actions),
    )
    state, _ = learner.advance(state, replay.add(replay.init(), chunk), 1)
    found["learner: one step"] = state.params
    return found


def digest(value: object) -> str:
    import jax
    import numpy as np

    total = hashlib.sha256()
    for leaf in jax.tree.leaves(value):
        total.update(np.asarray(leaf).tobytes())
    return total.hexdigest()[:12]


def run(name: str, qemu: str | None) -> dict[str, str]:
    """Runs all pieces in a process; returns their digests."""
    command = [sys.executable, __file__, "--one", name]
    if qemu:
        emulator = shutil.which("qemu-x86_64") or sys.exit("qemu-x86_64 is not installed")
        command = [str(emulator), "-cpu", qemu, *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NPROC": "1"}
    environment["XLA_FLAGS"] = SETTINGS[name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        title = f"{name}, {qemu}" if qemu else name
        last = (done.stderr.splitlines() or [""])[-1]
        print(f"{title}: ended with {done.returncode}: {last}", file=sys.stderr)
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qemu", nargs="*", default=[], metavar="CPU")
    parser.add_argument("--one", choices=SETTINGS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if options.one == PREPARED:
            from mujax_pipe import runtime

            runtime.prepare()
        for name, value in pieces().items():
            print(f"{name} {digest(value)}", flush=True)
        return
    chosen = [(name, None) for name in SETTINGS] + [(PREPARED, cpu) for cpu in options.qemu]
    columns = {(name, cpu): run(name, cpu) for name, cpu in chosen}
    titles = [f"{name}; {cpu or 'this CPU'}" for name, cpu in columns]
    print(f"| operation | {' | '.join(titles)} |")
    print(f"|:--|{':-:|' * len(columns)}")
    for piece in columns["default", None]:
        # The same letter is the same bits.
        seen: dict[str, str] = {}
        found = [column.get(piece) for column in columns.values()]
        cells = ["?" if x is None else seen.setdefault(x, "ABCDEFGH"[len(seen)]) for x in found]
        print(f"| {piece} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
