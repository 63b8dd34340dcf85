"""What search is worth: one trained network, played with more and more simulations.

Nothing that trains or evaluates a cell imports this, so a change here trains nothing again.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mujax_pipe.agents import ALGORITHMS, SMZ, algorithm_name
from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.smz import chance_metrics, nearest_code
from mujax_pipe.agents.types import Array, Params, SearchOutput
from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.params import Params as ProjectParams
from mujax_pipe.training.envs import EnvironmentFactory, environment_factory
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.files import require_writable, write_csv, write_json
from mujax_pipe.training.inference import Policy, load_policy
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.vector_envs import make_batch

# Transitions on which chance codes are counted: so many environments, so many steps.
_WIDTH, _STEPS = 64, 64


class Prior:
    """Acts by the network's policy alone, as an algorithm that never searches."""

    def __init__(self, algorithm: Algorithm):
        self.config = algorithm.config
        self._algorithm = algorithm

    def search(
        self,
        params: Params,
        key: Array,
        observation: Array,
        invalid_actions: Array,
        step: Array,
        *,
        explore: bool,
    ) -> SearchOutput:
        """Takes the likeliest legal action; `policy_probs` are the prior's."""
        del key, step, explore
        root = self._algorithm.root(params, observation)
        logits = jnp.where(invalid_actions, -jnp.inf, root.prior_logits)
        return SearchOutput(
            action=jnp.argmax(logits, axis=-1),
            policy_probs=jax.nn.softmax(logits),
            value=root.value,
        )


def search_cell(project: ProjectParams, cell: Cell, root: Path = Path()) -> None:
    """Plays a cell's best checkpoint with every budget; writes `search.csv` and `search.json`.

    The episodes are the first of the final evaluation, the same for every budget.
    """
    files = CellFiles(cell, root)
    require_writable(files.directory)
    policy = load_policy(files.best)
    environment = project.environments[cell.env]
    factory = environment_factory(environment.id, environment.wrappers)
    started = time.monotonic()
    rows = []
    for simulations in project.search.simulations:
        evaluator = Evaluator(
            with_budget(policy.algorithm, simulations),  # type: ignore[arg-type]
            factory,
            Episodes.FINAL,
            project.search.episodes[cell.env],
        )
        played = evaluator.play(policy.params, np.int32(policy.metadata["step"]))
        evaluator.close()
        returns = played.episode_return
        spread = float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0
        length = float(np.mean(played.length))
        rows.append((simulations, len(returns), float(np.mean(returns)), spread, length))
        print(
            f"{cell.name}: {simulations} simulations, mean return {rows[-1][2]:.4g}, "
            f"{time.monotonic() - started:.0f} s",
            flush=True,
        )
    write_csv(files.search_csv, ("simulations", "episodes", "mean", "std", "mean_length"), rows)
    write_json(files.search_json, chance_statistics(policy, factory))


def with_budget(algorithm: Algorithm, simulations: int) -> Algorithm | Prior:
    """Returns an algorithm that searches so much; none at all with 0 simulations."""
    if simulations == 0:
        return Prior(algorithm)
    config = dataclasses.replace(algorithm.config, num_simulations=simulations)
    return ALGORITHMS[algorithm_name(config)](config, algorithm.spec)


def chance_statistics(policy: Policy, factory: EnvironmentFactory) -> dict[str, Any]:
    """Returns how many chance outcomes the model tells apart while the policy plays.

    `chance_perplexity` is how many the prior expects, `code_perplexity` how many the encoder uses,
    see `smz.chance_metrics`; nothing for an algorithm without chance.
    """
    algorithm = policy.algorithm
    if not isinstance(algorithm, SMZ):
        return {}
    environments = make_batch(
        factory, _WIDTH, lambda index, episode: episode_seed(Episodes.FINAL, 1, index, episode)
    )
    seen: dict[str, list[Any]] = {"before": [], "action": [], "after": [], "cut": []}
    observation, invalid = environments.reset()
    for _ in range(_STEPS):
        action = policy.act(observation, invalid)
        answer = environments.step(action)
        seen["before"].append(observation)
        seen["action"].append(action)
        # As in training: zeros say that the episode ended; where it was cut is not known.
        seen["after"].append(np.where(answer.terminated[:, None], 0.0, answer.observation))
        seen["cut"].append(answer.truncated)
        observation, invalid = answer.observation, answer.invalid_actions
    environments.close()
    batch = {name: jnp.asarray(np.stack(values)) for name, values in seen.items()}

    @jax.jit
    def measured(params: Params, batch: dict[str, Array]) -> dict[str, Array]:
        network = algorithm.bind(params)
        afterstate = network.act(
            network.represent(batch["before"]), algorithm.one_hot_action(batch["action"])
        )
        chance_logits, _ = network.predict_afterstate(afterstate)
        code = nearest_code(network.encode(batch["before"], batch["after"]))
        return chance_metrics(chance_logits, code, 1.0 - batch["cut"])

    found = {name: float(value) for name, value in measured(policy.params, batch).items()}
    return {"transitions": int(np.sum(~np.stack(seen["cut"]))), **found}
