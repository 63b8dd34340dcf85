"""Which device acts and which learns."""

from __future__ import annotations

from typing import TypeVar

import jax

from mujax_pipe.errors import UserError, quoted

T = TypeVar("T")


def acting_device(name: str) -> jax.Device:
    """Returns the device that `actor_device` names; "auto" is the CPU, next to the environments."""
    return _named("actor_device", "cpu" if name == "auto" else name)


def learning_device(name: str) -> jax.Device:
    """Returns the device that `learner_device` names; "auto" is a GPU where JAX finds one."""
    return jax.devices()[0] if name == "auto" else _named("learner_device", name)


def placed(tree: T, device: jax.Device) -> T:
    """Returns a pytree on a device: computations follow their arrays there."""
    if device == jax.devices()[0]:
        return tree  # The default: nothing to move, and nothing to pin.
    return jax.device_put(tree, device)


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
