"""What a profile says: shares, hours, a table, and the one thing to change first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mujax_pipe import runtime
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training.experiment import ExperimentConfig

_LABELS = {
    "compile": "compiling",
    "search": "acting: search",
    "environment": "acting: environments",
    "add": "replay: add",
    "sample": "replay: sample",
    "reanalyze": "reanalyze",
    "gradient": "targets and gradient",
    "evaluation": "evaluation (estimate)",
    "overhead": "Python and waiting",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """One kind of work.

    Attributes:
      name: search, environment, add, sample, reanalyze, gradient, evaluation or overhead.
      seconds: of doing it once.
      times: it is done for each learner step; may be a fraction.
    """

    name: str
    seconds: float
    times: float

    @property
    def seconds_per_learner_step(self) -> float:
        return self.seconds * self.times


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Where the time of a set-up goes on this machine.

    Attributes:
      experiment: the set-up.
      compile_seconds: by program; `start` makes environments, parameters and replay.
      pieces: all that a learner step pays for, once compiled.
      learner_steps_per_second: counted while the schedule really ran, without evaluation.
      env_steps_per_second: counted likewise.
      episode_length: longest episode seen meanwhile; evaluation is reckoned with it.
      episode_limit: steps after which an evaluation episode is cut; None if there is no limit.
      replay_bytes: of a full replay, allocated at the start.
      peak_memory_mb: most that this process has held, profiling included.
    """

    experiment: ExperimentConfig
    compile_seconds: dict[str, float]
    pieces: tuple[Piece, ...]
    learner_steps_per_second: float
    env_steps_per_second: float
    episode_length: int
    episode_limit: int | None
    replay_bytes: int
    peak_memory_mb: float

    @property
    def num_learner_steps(self) -> int:
        """Learner steps of the whole run."""
        return self.experiment.num_steps

    @property
    def env_steps_per_learner_step(self) -> float:
        """Environment steps that the schedule takes for each learner step."""
        return self.experiment.config.batch_size / self.experiment.config.replay_ratio

    @property
    def seconds_per_learner_step(self) -> float:
        """All pieces together."""
        return sum(piece.seconds_per_learner_step for piece in self.pieces)

    @property
    def shares(self) -> dict[str, float]:
        """Share of each piece in a learner step; they sum to 1."""
        total = self.seconds_per_learner_step
        return {piece.name: piece.seconds_per_learner_step / total for piece in self.pieces}

    @property
    def run_shares(self) -> dict[str, float]:
        """Shares of the whole run: those of a learner step, and `compile`; they sum to 1."""
        compiling = sum(self.compile_seconds.values())
        compiling /= compiling + self.num_learner_steps * self.seconds_per_learner_step
        rest = {name: share * (1.0 - compiling) for name, share in self.shares.items()}
        return {"compile": compiling, **rest}

    @property
    def projected_learner_steps_per_second(self) -> float:
        """Of a long run, evaluation included."""
        return 1.0 / self.seconds_per_learner_step

    @property
    def seconds(self) -> float:
        """Estimate for the whole run: compiling, filling replay, and every learner step."""
        costs = {piece.name: piece.seconds_per_learner_step for piece in self.pieces}
        acting = sum(costs[name] for name in ("search", "environment", "add", "overhead"))
        filling = acting * self.experiment.config.first_learn_size / self.env_steps_per_learner_step
        learning = self.num_learner_steps * self.seconds_per_learner_step
        return sum(self.compile_seconds.values()) + filling + learning

    @property
    def seconds_at_limit(self) -> float:
        """The same if every evaluation episode lasts as long as it may."""
        longer = max((self.episode_limit or 0) / self.episode_length - 1.0, 0.0)
        costs = {piece.name: piece.seconds_per_learner_step for piece in self.pieces}
        return self.seconds + longer * costs["evaluation"] * self.num_learner_steps

    @property
    def recommendation(self) -> str:
        """The one thing to change first."""
        return recommend(self.run_shares, self.experiment.config, self.experiment.evaluation)


def recommend(
    shares: Mapping[str, float], config: MuZeroConfig, evaluation: EvaluationConfig
) -> str:
    """Returns the one thing to change first: what makes the largest share of the run smaller.

    Args:
      shares: of the whole run, as `Profile.run_shares`.
      config: present settings.
      evaluation: present settings.
    """
    largest = max(shares, key=lambda name: shares[name])
    share, half = (f"{shares[largest] / part:.0%}" for part in (1, 2))
    half = f"saves up to {half} of the time"
    simulations, ratio = config.num_simulations, config.reanalyze_ratio
    fewer = f", or --num-simulations {simulations // 2}" if simulations > 1 else ""
    actors = 2 * config.num_actors
    more_actors = f"--num-actors {actors}, or " if config.num_envs % actors == 0 else ""
    advice = {
        "compile": "more --num-steps (the next run of these settings loads what this one compiled)",
        "search": f"--num-envs {2 * config.num_envs} (a wider search costs less for each "
        f"environment){fewer} ({half})",
        "environment": f"{more_actors}--replay-ratio {2 * config.replay_ratio:g} (half as many "
        f"environment steps for each learner step: {half})",
        "add": f"--chunk-steps {2 * config.chunk_steps} (half as many, larger additions: {half})",
        "sample": f"--batch-size {max(config.batch_size // 2, 1)} (half as many windows to copy)",
        "reanalyze": f"--reanalyze-ratio {ratio / 2:g} (half as many searches: {half}){fewer}",
        "gradient": "a smaller --size, or fewer --unroll-steps; the time goes into learning, as "
        "it should",
        "evaluation": f"--evaluate-every {2 * evaluation.every} (half as many: {half}), or fewer "
        "--evaluate-episodes",
        "overhead": f"--num-envs {2 * config.num_envs} (each line of Python then serves twice as "
        f"many environment steps: {half})",
    }
    return f"{_LABELS[largest]} has the largest share of the run ({share}): try {advice[largest]}"


def show(profile: Profile) -> None:
    """Prints the table, what follows from it, and the recommendation."""
    console, title = Console(highlight=False), profile.experiment.title
    console.print(f"{title}: where the time goes, {runtime.threads() or 1} XLA thread(s)")
    console.print(_table(profile))
    compiling = ", ".join(f"{k} {v:.1f} s" for k, v in profile.compile_seconds.items())
    lines = {
        "Acting": _acting(profile),
        "Compiling": f"{sum(profile.compile_seconds.values()):.1f} s in all: {compiling}",
        "Measured": f"{profile.learner_steps_per_second:.3g} learner steps/s and "
        f"{profile.env_steps_per_second:,.0f} environment steps/s, by running it for a moment "
        "without evaluation",
        "Projected": f"{profile.projected_learner_steps_per_second:.3g} learner steps/s with "
        f"evaluation; the whole run of {profile.num_learner_steps:,} learner steps takes about "
        f"{_duration(profile)}",
        "Memory": f"replay {profile.replay_bytes / 1e6:,.1f} MB; the whole process at most "
        f"{profile.peak_memory_mb:,.0f} MB",
        "Try first": profile.recommendation,
    }
    # A grid wraps long texts beside their names.
    grid = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        grid.add_row(Text(name), Text(text, style="bold" * (name == "Try first")))
    console.print(grid)


def _acting(profile: Profile) -> str:
    config = profile.experiment.config
    share = config.num_envs // config.num_actors
    each = {piece.name: 1e6 * piece.seconds / share for piece in profile.pieces}
    return (
        f"{profile.env_steps_per_learner_step:,.4g} environment steps for each learner step "
        f"(batch_size {config.batch_size} / replay_ratio {config.replay_ratio:g}); one takes "
        f"{each['search']:,.0f} µs of search, {each['environment']:,.0f} µs of environment"
    )


def _duration(profile: Profile) -> str:
    text = _readable(profile.seconds)
    if profile.seconds_at_limit > 1.1 * profile.seconds:
        text += (
            f" (up to {_readable(profile.seconds_at_limit)} if evaluation episodes, now "
            f"{profile.episode_length} steps, come to last {profile.episode_limit:,})"
        )
    return text


def _readable(seconds: float) -> str:
    return f"{seconds / 3600:.2f} h" if seconds >= 600 else f"{seconds:.0f} s"


def _table(profile: Profile) -> Table:
    table = Table(box=box.SIMPLE, show_footer=True, pad_edge=False)
    total = f"{1e3 * profile.seconds_per_learner_step:,.2f} ms"
    table.add_column("piece", "together", no_wrap=True)
    table.add_column("once", justify="right", no_wrap=True)
    table.add_column("is", no_wrap=True)
    table.add_column("learner step", total, justify="right", no_wrap=True)
    table.add_column("share", "100%", justify="right", no_wrap=True)
    for piece in profile.pieces:
        table.add_row(
            _LABELS[piece.name],
            f"{1e3 * piece.seconds:,.2f} ms",
            _once(piece, profile.experiment.config),
            f"{1e3 * piece.seconds_per_learner_step:,.2f} ms",
            f"{profile.shares[piece.name]:.1%}",
        )
    return table


def _once(piece: Piece, config: MuZeroConfig) -> str:
    """What doing a piece once means."""
    share = config.num_envs // config.num_actors
    fresh = round(config.reanalyze_ratio * config.batch_size)
    return {
        "search": f"{share} searches",
        "environment": f"{share} steps",
        "add": f"{config.num_envs} x {config.chunk_steps} steps",
        "sample": f"{config.batch_size} windows",
        "reanalyze": f"{fresh * (config.unroll_steps + 1):,} searches",
        "gradient": f"{config.batch_size} windows",
        "evaluation": "1 episode",
        "overhead": "1 learner step",
    }[piece.name]
