"""A trained policy: load a best checkpoint and act with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mujax_pipe.agents import ALGORITHMS
from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import EnvironmentSpec, Params
from mujax_pipe.config import CONFIGS
from mujax_pipe.errors import UserError, quoted
from mujax_pipe.layout import RunFiles
from mujax_pipe.settings import from_mapping
from mujax_pipe.training.actor import Actor, as_batch
from mujax_pipe.training.checkpoint import load_metadata, load_params
from mujax_pipe.training.keys import Purpose, key_for
from mujax_pipe.training.model_store import local_copy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """A trained network with its search, without exploration."""

    algorithm: Algorithm
    params: Params
    metadata: dict[str, Any]

    def act(self, observation: Any, invalid_actions: Any = None) -> Any:
        """Returns the action for one observation [O], or actions [B] for a batch [B, O].

        Args:
          observation: as the environment returns it.
          invalid_actions: [A] or [B, A], true = illegal; all legal if None.
        """
        action, _, _ = self.search(observation, invalid_actions)
        return action

    def search(self, observation: Any, invalid_actions: Any = None) -> tuple[Any, Any, Any]:
        """Returns (action, policy_probs, value): int, [A] and float, or [B], [B, A] and [B]."""
        batch, mask, single = as_batch(self.algorithm.spec, observation, invalid_actions)
        output = _search(self.algorithm, self.params, batch, mask)
        action, probs, value = map(np.asarray, (output.action, output.policy_probs, output.value))
        return (int(action[0]), probs[0], float(value[0])) if single else (action, probs, value)

    def actor(self, seed: int = 0) -> Actor:
        """Returns an actor that explores with this network as training did at its step."""
        actor = Actor(self.algorithm, seed)
        actor.update(self.params, np.int32(self.metadata["step"]))
        return actor


def load_policy(run: str | Path | Any, *, like: Params | None = None) -> Policy:
    """Loads the best checkpoint of a run.

    Args:
      run: the folder of a run, its `best/` folder, or a W&B artifact, as an object or by name:
        `entity/project/name:version`. The latter is downloaded.
      like: parameters, or their shapes, that it must have; by default what its settings say.

    Raises:
      UserError: no checkpoint there, or one that this version cannot read.
    """
    run = local_copy(run)
    best = RunFiles(run).best
    directory = best if best.is_dir() else run
    metadata = load_metadata(directory)
    algorithm = _algorithm_of(metadata, directory)
    if like is None:
        like = jax.eval_shape(lambda: algorithm.init(jax.random.key(0)))
    return Policy(algorithm=algorithm, params=load_params(directory, like), metadata=metadata)


def load_actor(run: str | Path | Any, seed: int = 0) -> Actor:
    """Loads the best checkpoint of a run, see `load_policy`, to act with exploration."""
    return load_policy(run).actor(seed)


def _algorithm_of(metadata: dict[str, Any], directory: Path) -> Algorithm:
    name = metadata.get("algorithm")
    if name not in ALGORITHMS:
        raise UserError(
            f"{directory} was made by the algorithm {name!r}: this version knows "
            f"{quoted(ALGORITHMS)}"
        )
    config = from_mapping(CONFIGS[name], metadata["config"], where=f"{directory}: config")
    return ALGORITHMS[name](config, EnvironmentSpec(**metadata["environment_spec"]))


@jax.jit(static_argnums=0)
def _search(algorithm, params, observation, invalid_actions):  # type: ignore[no-untyped-def]
    # Without exploration neither the key nor the step matters.
    key = key_for(0, Purpose.EVALUATE)
    return algorithm.search(params, key, observation, invalid_actions, np.int32(0), explore=False)
