"""Gymnasium environments, and a batch of them whose every episode has its own seed."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from mujax_pipe.agents.types import EnvironmentSpec
from mujax_pipe.errors import RunError, UserError, quoted
from mujax_pipe.training.wrappers import ActionMask, DiscretiseActions, Mask2048

# Called with a number; episodes have seeds of their own, so most environments can ignore it.
EnvironmentFactory = Callable[[int], gym.Env | gym.vector.VectorEnv]


def _flatten(env: gym.Env) -> gym.Env:
    return gym.wrappers.FlattenObservation(env)


def _discretise(env: gym.Env, bins: int = 5) -> gym.Env:
    return DiscretiseActions(env, bins)


def _time_limit(env: gym.Env, steps: int) -> gym.Env:
    return gym.wrappers.TimeLimit(env, steps)


def _action_mask(env: gym.Env) -> gym.Env:
    return ActionMask(env)


def _mask_2048(env: gym.Env) -> gym.Env:
    return Mask2048(env)


WRAPPERS: dict[str, Callable[..., gym.Env]] = {
    "flatten": _flatten,
    "discretise": _discretise,
    "time_limit": _time_limit,
    "action_mask": _action_mask,
    "mask_2048": _mask_2048,
}


def make_environment(
    env_id: str, wrappers: Sequence[str] = (), *, render_mode: str | None = None
) -> gym.Env:
    """Makes one environment that the trainer can use.

    Args:
      env_id: any Gymnasium id, also `package.module:Name-v0`.
      wrappers: applied in order: `flatten`, `discretise:5` (values per action dimension),
        `time_limit:200` (steps), `action_mask` (heeds info["action_mask"]), `mask_2048` (illegal
        moves), or `package.module:Wrapper`, an import path called with the environment.
      render_mode: as Gymnasium has it, such as `rgb_array`.

    Raises:
      UserError: an unknown id or wrapper, or spaces that do not fit; names what would mend it.
    """
    try:
        with warnings.catch_warnings():
            # An older version of an environment is the user's choice, and named in the results.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", message=".*out of date.*")
            # Not every environment takes a render mode, not even None.
            options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
            env = gym.make(env_id, **options)
    except (gym.error.Error, ModuleNotFoundError, TypeError, ValueError) as error:
        raise UserError(
            f"environment {env_id!r} cannot be made: {_first_line(error)} Name a "
            "Gymnasium id such as CartPole-v1, or module:Name-v0 for one that a package adds"
        ) from None
    for name in wrappers:
        env = _wrap(env, name)
    make_environment_spec(env)
    return env


def environment_factory(env_id: str, wrappers: Sequence[str] = ()) -> EnvironmentFactory:
    """Returns a factory of environments that `make_environment` would make."""
    return lambda seed: make_environment(env_id, wrappers)


def make_environment_spec(env: gym.Env | gym.vector.VectorEnv) -> EnvironmentSpec:
    """Returns what an algorithm must know of an environment.

    Raises:
      UserError: for spaces other than a 1-D Box of observations and Discrete actions.
    """
    observations = getattr(env, "single_observation_space", env.observation_space)
    actions = getattr(env, "single_action_space", env.action_space)
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if not isinstance(observations, gym.spaces.Box) or len(observations.shape) != 1:
        raise UserError(f"environment {name} has {_observation_advice(observations)}")
    if not isinstance(actions, gym.spaces.Discrete):
        raise UserError(f"environment {name} has {_action_advice(actions)}")
    return EnvironmentSpec(observation_dim=int(observations.shape[0]), num_actions=int(actions.n))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What a batch of B environments answers to a batch of actions."""

    observation: np.ndarray  # [B, O] float32: of the next episode where one ended
    invalid_actions: np.ndarray  # [B, A] bool, of `observation`
    reward: np.ndarray  # [B] float32
    terminated: np.ndarray  # [B] bool
    truncated: np.ndarray  # [B] bool; never together with terminated
    final_observation: np.ndarray  # [B, O]: what the action led to; differs only where one ended
    final_info: list[dict[str, Any] | None]  # the last info of episodes that ended


class EnvironmentBatch:
    """B environments stepped side by side, each restarted in the step that ends its episode.

    Every reset gets the seed of its (environment, episode), so a trajectory is a function of the
    actions alone: an environment is rebuilt by resetting with that seed and replaying its actions.

    Args:
      factory: makes one environment.
      size: B.
      seed_of: (environment index, episode index) -> reset seed.
    """

    exact_resume = True

    def __init__(self, factory: EnvironmentFactory, size: int, seed_of: Callable[[int, int], int]):
        self._envs: list[Any] = [factory(index) for index in range(size)]
        self._seed_of = seed_of
        self.spec = make_environment_spec(self._envs[0])
        self._start = int(getattr(self._envs[0].action_space, "start", 0))
        self._observation = np.zeros((size, self.spec.observation_dim), np.float32)
        self._invalid = np.zeros((size, self.spec.num_actions), bool)
        self.episode = np.zeros(size, np.int64)
        self._actions: list[list[int]] = [[] for _ in range(size)]

    def __len__(self) -> int:
        return len(self._envs)

    def reset(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts the first episode everywhere; returns observations [B, O] and illegal actions."""
        self.episode[:] = 0
        for index in range(len(self)):
            self._reset_one(index)
        return self._observation.copy(), self._invalid.copy()

    def step(self, action: np.ndarray) -> Step:
        """Takes actions [B], counted from 0 whatever the action space starts at."""
        size = len(self)
        reward = np.zeros(size, np.float32)
        terminated, truncated = np.zeros(size, bool), np.zeros(size, bool)
        ended: dict[int, tuple[np.ndarray, dict[str, Any]]] = {}
        for index, env in enumerate(self._envs):
            observation, reward[index], terminal, cut, info = env.step(
                self._start + int(action[index])
            )
            self._actions[index].append(int(action[index]))
            terminated[index], truncated[index] = terminal, cut and not terminal
            self._store(index, observation, info)
            if terminal or cut:
                ended[index] = (self._observation[index].copy(), info)
                self.episode[index] += 1
                self._reset_one(index)
        final_observation = self._observation.copy()
        for index, (observation, _) in ended.items():
            final_observation[index] = observation
        return Step(
            observation=self._observation.copy(),
            invalid_actions=self._invalid.copy(),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_observation=final_observation,
            final_info=[ended[i][1] if i in ended else None for i in range(size)],
        )

    def snapshot(self) -> dict[str, np.ndarray]:
        """Returns what `restore` needs: episode numbers [B], and the actions taken in each.

        Actions of all environments are joined, `num_actions` [B] says how many are whose. A 0 ends
        them, for Orbax refuses an array of no elements.
        """
        return {
            "episode": self.episode.copy(),
            "num_actions": np.array([len(actions) for actions in self._actions], np.int64),
            "actions": np.array(
                [a for actions in (*self._actions, [0]) for a in actions], np.int64
            ),
            "observation": self._observation.copy(),
        }

    def restore(self, saved: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Brings back the episodes under way, by seed and actions; returns as `reset` does.

        Raises:
          RunError: an environment answers differently than before: it is not deterministic.
        """
        ends = np.cumsum(saved["num_actions"])
        for index, end in enumerate(ends):
            self.episode[index] = saved["episode"][index]
            self._reset_one(index)
            for action in saved["actions"][end - saved["num_actions"][index] : end]:
                observation, _, _, _, info = self._envs[index].step(self._start + int(action))
                self._store(index, observation, info)
                self._actions[index].append(int(action))
            if not np.array_equal(self._observation[index], saved["observation"][index]):
                raise RunError(
                    f"environment {index} cannot be resumed: replaying its "
                    f"{len(self._actions[index])} actions led to {self._observation[index]} where "
                    f"it was {saved['observation'][index]}; it is not a function of its seed and "
                    "actions"
                )
        return self._observation.copy(), self._invalid.copy()

    def close(self) -> None:
        """Closes every environment."""
        for env in self._envs:
            env.close()

    def _reset_one(self, index: int) -> None:
        seed = self._seed_of(index, int(self.episode[index]))
        observation, info = self._envs[index].reset(seed=seed)
        self._actions[index].clear()
        self._store(index, observation, info)

    def _store(self, index: int, observation: Any, info: dict[str, Any]) -> None:
        self._observation[index] = observation
        self._invalid[index] = mask_of(info, self.spec.num_actions, index)


def mask_of(info: Mapping[str, Any], num_actions: int, index: int) -> np.ndarray:
    """Returns the illegal actions [A] that an info names, none if it names none.

    Raises:
      RunError: a mask of another shape, or one that leaves no action.
    """
    mask = np.asarray(info.get("invalid_actions", np.zeros(num_actions, bool))).astype(bool)
    if mask.shape != (num_actions,):
        raise RunError(
            f"environment {index} has info['invalid_actions'] of shape {mask.shape}: allowed is "
            f"({num_actions},), one entry an action, 1 = illegal"
        )
    if mask.all():
        raise RunError(f"environment {index} says that all {num_actions} actions are illegal")
    return mask


def _wrap(env: gym.Env, name: str) -> gym.Env:
    head, _, argument = name.partition(":")
    if head in WRAPPERS:
        parameters = list(inspect.signature(WRAPPERS[head]).parameters.values())[1:]
        if argument and not (parameters and argument.isdecimal() and int(argument) > 0):
            raise UserError(
                f"wrapper {name!r} has the argument {argument!r}: allowed is "
                f"{'a whole number above 0' if parameters else 'none'}"
            )
        if not argument and parameters and parameters[0].default is inspect.Parameter.empty:
            raise UserError(f"wrapper {name!r} lacks its argument: write {head}:200, for example")
        return WRAPPERS[head](env, *([int(argument)] if argument else []))
    if not argument:
        raise UserError(
            f"wrapper {name!r} is unknown: allowed are {quoted(WRAPPERS)}, or an import path such "
            "as my_package.wrappers:MyWrapper"
        )
    try:
        return getattr(importlib.import_module(head), argument)(env)
    except (ImportError, AttributeError) as error:
        raise UserError(f"wrapper {name!r} cannot be imported: {_first_line(error)}") from None


def _observation_advice(space: gym.Space) -> str:
    text = f"observations of {_describe(space)}; allowed is a 1-D Box"
    if isinstance(space, gym.spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 2:
        return f"{text} (images are not supported)"
    return f"{text}: add the wrapper `flatten`"


def _action_advice(space: gym.Space) -> str:
    text = f"actions of {_describe(space)}; allowed is Discrete"
    if isinstance(space, gym.spaces.Box):
        return f"{text}: add the wrapper `discretise:5`"
    return f"{text}: write a wrapper that maps them to Discrete and name its import path"


def _describe(space: gym.Space) -> str:
    if isinstance(space, gym.spaces.Box):
        return f"Box{space.shape} {space.dtype}"
    return str(space)


def _first_line(error: BaseException) -> str:
    """The first line of a message, as a sentence."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0].strip()
    return line if line.endswith((".", "?", "!")) else f"{line}."
