"""Watching a trained policy: episodes in the terminal, or recorded as a GIF or MP4."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.text import Text

from mujax_pipe import runtime
from mujax_pipe.errors import UserError, quoted
from mujax_pipe.layout import CellFiles
from mujax_pipe.params import Params
from mujax_pipe.training import film
from mujax_pipe.training.envs import make_environment, make_environment_spec
from mujax_pipe.training.inference import Policy, load_policy

# An environment without a time limit may never end under a poor policy.
_MOST_STEPS = 10_000
# Of a film for a report: so many frames, of several episodes where those are short.
_FILMED_FRAMES, _FILMED_EPISODES = 150, 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Episode:
    """An episode that was played: the seed of its reset, what it came to, and why it ended."""

    seed: int
    episode_return: float
    length: int
    ended: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moment:
    """A step, just taken; or step 0, when an episode has just begun."""

    step: int
    observation: Any = None  # what the policy saw
    action: int = 0
    value: float = 0.0  # of the search
    reward: float = 0.0


def play(
    run: str | Path,
    *,
    env_id: str | None = None,
    wrappers: Sequence[str] | None = None,
    episodes: int = 3,
    seed: int = 0,
    num_simulations: int | None = None,
    record: Path | None = None,
    frames: int = _MOST_STEPS,
) -> list[Episode]:
    """Plays episodes with a trained policy, without exploration, and shows them.

    In the terminal an environment draws itself where it can (render mode `ansi`), and each step is
    a line.

    Args:
      run: as for `load_policy`.
      env_id: an environment other than the one trained in.
      wrappers: other than those trained with.
      episodes: how many; the i-th is reset with `seed + i`, counted from 0.
      seed: of the first episode.
      num_simulations: of each search; as in training if None.
      record: a .gif or .mp4 file to draw into, instead of the terminal; replaced if it exists.
      frames: recorded at most; the last episode is left then.

    Raises:
      UserError: no such run or environment, or one that cannot be drawn.
    """
    if record is not None:
        film.require_format(record)
        # What draws with pygame looks for a screen and complains of none, though images need none.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    runtime.prepare(runtime.threads() or 1)
    policy = _with_simulations(load_policy(run), num_simulations)
    env = _environment(policy, run, env_id, wrappers, drawn=record is not None)
    console = Console(highlight=False, soft_wrap=True)

    def line(text: str) -> None:
        # Frames carry colours as escape codes; rich drops them where no terminal shows them.
        console.print(Text.from_ansi(text))

    played: list[Episode] = []
    with contextlib.ExitStack() as stack:
        stack.callback(env.close)
        stack.enter_context(_missing_package_named(env))
        line(_title(policy, env))
        watch: Callable[[Moment], None] = lambda moment: _print_moment(moment, env, line)
        if record is not None:
            taken = stack.enter_context(film.recorded(record, env.metadata.get("render_fps")))
            watch = lambda moment: taken.add(env.render())
        for index in range(episodes):
            # An episode's start is a frame too.
            left = _MOST_STEPS if record is None else frames - taken.count - 1
            if left < 1:
                break
            played.append(_play(env, policy, seed + index, watch, min(left, _MOST_STEPS)))
            line(_summary(played[-1]))
    returns, lengths = [e.episode_return for e in played], [e.length for e in played]
    if episodes > 1:
        line(f"mean return {np.mean(returns):.6g}, mean length {np.mean(lengths):.6g}")
    if record is not None:
        line(f"{taken.count:,} frames ({taken.seconds:.1f} s) in {record}")
    return played


def film_best(params: Params, env: str, path: Path, root: Path = Path()) -> None:
    """Films the best of an environment's cells, by its final score: a few seconds for a report.

    Raises:
      UserError: none is finished, or the environment draws no images.
    """
    finished = {}
    for cell in params.cells():
        files = CellFiles(cell, root)
        if cell.env == env and files.evaluation_json.exists():
            finished[cell] = json.loads(files.evaluation_json.read_text(encoding="utf-8"))["mean"]
    if not finished:
        raise UserError(f"no cell of {env} is finished: `snakemake --cores all` makes them")
    best = max(finished, key=finished.__getitem__)
    environment = params.environments[env]
    play(
        CellFiles(best, root).directory,
        env_id=environment.id,
        wrappers=environment.wrappers,
        episodes=_FILMED_EPISODES,
        record=path,
        frames=_FILMED_FRAMES,
    )


def _with_simulations(policy: Policy, num_simulations: int | None) -> Policy:
    if num_simulations is None:
        return policy
    algorithm = policy.algorithm
    config = dataclasses.replace(algorithm.config, num_simulations=num_simulations)
    return dataclasses.replace(policy, algorithm=type(algorithm)(config, algorithm.spec))


def _environment(
    policy: Policy,
    run: str | Path,
    env_id: str | None,
    wrappers: Sequence[str] | None,
    *,
    drawn: bool,
) -> gym.Env:
    """Makes the environment to play in, drawing images, or text where it can."""
    known = policy.metadata.get("environment", {})
    env_id = env_id or known.get("id")
    if env_id is None:
        raise UserError(f"{run} does not say which environment it was trained in: add --env ID")
    wrappers = known.get("wrappers", ()) if wrappers is None else wrappers
    env = make_environment(env_id, wrappers)
    found, wanted = make_environment_spec(env), policy.algorithm.spec
    modes = env.metadata.get("render_modes") or []
    env.close()
    if found != wanted:
        raise UserError(
            f"environment {env_id} has {found.observation_dim} observed numbers and "
            f"{found.num_actions} actions; {run} was trained with {wanted.observation_dim} and "
            f"{wanted.num_actions}: name another one with --env, or its wrappers with --wrapper"
        )
    if drawn and "rgb_array" not in modes:
        raise UserError(
            f"environment {env_id} draws no images (it has {quoted(modes) or 'no render modes'}): "
            "leave out --record to watch it in the terminal"
        )
    mode = "rgb_array" if drawn else "ansi" if "ansi" in modes else None
    return make_environment(env_id, wrappers, render_mode=mode)


@contextlib.contextmanager
def _missing_package_named(env: gym.Env) -> Iterator[None]:
    """Environments import what they draw with when they first draw."""
    try:
        yield
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        raise UserError(f"environment {name} cannot be drawn: {error}") from None


def _play(
    env: gym.Env, policy: Policy, seed: int, watch: Callable[[Moment], None], most_steps: int
) -> Episode:
    """Plays one episode, telling `watch` of its start and of each step."""
    start = int(getattr(env.action_space, "start", 0))
    observation, info = env.reset(seed=seed)
    watch(Moment(step=0))
    total, length, ended = 0.0, 0, ""
    while not ended:
        number, _, value = policy.search(observation, info.get("invalid_actions"))
        action = start + number
        # A copy: some environments hand out the same array each time.
        seen = np.array(observation)
        observation, reward, terminated, truncated, info = env.step(action)
        total, length = total + float(reward), length + 1
        if terminated or truncated:
            ended = "ended" if terminated else "cut by its time limit"
        elif length == most_steps:
            ended = f"left after {most_steps:,} steps"
        watch(
            Moment(step=length, observation=seen, action=action, value=value, reward=float(reward))
        )
    return Episode(seed=seed, episode_return=total, length=length, ended=ended)


def _print_moment(moment: Moment, env: gym.Env, line: Callable[[str], None]) -> None:
    """Prints a step as a line, and what it led to as the environment draws it, if it does."""
    drawn = env.render_mode == "ansi"
    if moment.step:
        line(
            f"{moment.step:>4}  {_numbers(moment.observation)}  action {moment.action}, "
            f"value {moment.value:.4g}, reward {moment.reward:.4g}"
        )
    if drawn:
        line(str(env.render()).strip("\n"))


def _numbers(observation: np.ndarray) -> str:
    """An observation on one line; flattened discrete ones are mostly zeros."""
    if len(observation) > 8 and np.isin(observation, (0, 1)).all():
        ones = np.flatnonzero(observation)
        return f"one{'s' * (len(ones) != 1)} at {quoted(ones)} of {len(observation)}"
    text = np.array2string(observation, precision=3, suppress_small=True, threshold=8)
    return " ".join(text.split())


def _title(policy: Policy, env: gym.Env) -> str:
    metadata = policy.metadata
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    simulations = policy.algorithm.config.num_simulations
    scored = "" if metadata.get("score") is None else f", score {metadata['score']:.4g}"
    return (
        f"{metadata['algorithm']} in {name}: checkpoint of step {metadata['step']:,}{scored}, "
        f"{simulations} simulation{'s' * (simulations > 1)} a move"
    )


def _summary(episode: Episode) -> str:
    return (
        f"seed {episode.seed}: return {episode.episode_return:.6g}, length {episode.length:,} "
        f"({episode.ended})"
    )
