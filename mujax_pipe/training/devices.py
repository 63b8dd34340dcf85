"""Which device acts and which learns."""

from __future__ import annotations

from typing import Any, TypeVar

import jax

from mujax_pipe import runtime
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.errors import UserError, quoted

T = TypeVar("T")


def acting_device(name: str) -> jax.Device:
    """Returns the device that `actor_device` names; "auto" is the CPU, next to the environments."""
    return _named("actor_device", "cpu" if name == "auto" else name)


def learning_device(name: str) -> jax.Device:
    """Returns the device that `learner_device` names; "auto" is a GPU where JAX finds one."""
    return jax.devices()[0] if name == "auto" else _named("learner_device", name)


def placed(tree: T, device: jax.Device) -> T:
    """Returns a pytree on a device: computations follow their arrays there.

    What is there already stays as it is, and so does what will be computed there by default.
    """
    default = jax.devices()[0]

    def place(leaf: Any) -> Any:
        here = leaf.devices() if isinstance(leaf, jax.Array) else {default}
        return leaf if here == {device} else jax.device_put(leaf, device)

    return jax.tree.map(place, tree)


def compute_class(config: MuZeroConfig) -> str:
    """Names what the bits of a run may depend on: the machine, and the GPU that learns or acts."""
    used = (learning_device(config.learner_device), acting_device(config.actor_device))
    others = sorted({device.device_kind for device in used if device.platform != "cpu"})
    return ", ".join([runtime.machine_class(), *others])


def _named(option: str, name: str) -> jax.Device:
    """Finds `cpu`, `gpu`, or one of several such as `gpu:1`."""
    platform, _, index = name.partition(":")
    try:
        devices = jax.devices(platform)
        return devices[int(index or 0)]
    except (RuntimeError, ValueError, IndexError):
        known = [f"{d.platform}:{d.id}" for d in {*jax.devices(), *jax.devices("cpu")}]
        raise UserError(
            f"{option} is {name!r}: allowed are auto, {quoted(sorted(known))}"
        ) from None
