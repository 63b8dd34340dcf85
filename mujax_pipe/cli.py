"""The command line: each command parses, then hands over to a plain function.

JAX, pandas and DVC are imported inside the commands that need them, so that help is instant.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import Abort, TyperException

from mujax_pipe import grid_commands
from mujax_pipe.config import CONFIGS
from mujax_pipe.errors import RunError, StoppedError, UserError
from mujax_pipe.layout import MAX_SEED
from mujax_pipe.options import Chosen, prepare, whole_number, with_settings
from mujax_pipe.run_config import CheckpointingConfig
from mujax_pipe.settings import check_value

_STOPPED = 130  # what a shell reports for Ctrl-C

app = typer.Typer(
    name="mujax-pipe",
    help="Train Gumbel and Stochastic MuZero on Gymnasium, one run or a whole grid.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
train_app = typer.Typer(help="Train one run outside any grid, into checkpoints/.")
profile_app = typer.Typer(help="Measure where the time of a run would go, without training.")
app.add_typer(train_app, name="train")
app.add_typer(profile_app, name="profile")
app.add_typer(grid_commands.app)

EnvId = Annotated[str, typer.Option("--env", help="Gymnasium id, such as CartPole-v1.")]
Wrappers = Annotated[
    list[str] | None,
    typer.Option("--wrapper", help="Wrapper, such as flatten; repeat it, innermost first."),
]
RunSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed.", parser=whole_number)]
Threads = Annotated[
    int, typer.Option("--threads", metavar="N", help="XLA threads.", parser=whole_number)
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits: 0; 1 for a failed run; 2 for bad input; 130 if stopped."""
    try:
        arguments = sys.argv[1:] if arguments is None else list(arguments)
        code = app(arguments, prog_name="mujax-pipe", standalone_mode=False)
    except UserError as error:
        code = _complain(str(error), 2)
    except RunError as error:
        code = _complain(str(error), 1)
    except StoppedError as error:
        code = _complain(str(error), 128 + error.signal)
    except TyperException as error:
        code = _complain(f"{_sentence(error)} (see mujax-pipe --help)", error.exit_code)
    except (Abort, KeyboardInterrupt):
        code = _STOPPED
    except OSError as error:
        code = _file_trouble(error)
    if code == _STOPPED:
        _complain("stopped", code)
    sys.exit(code)


def _file_trouble(error: OSError) -> int:
    """Reports a file that cannot be read or written; anything else keeps its traceback."""
    if error.errno == errno.EPIPE:
        # The reader of a pipe has left, as in `mujax-pipe summary | head -1`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        raise error
    where = error.filename or "a file in this folder"
    return _complain(
        f"{where}: {error.strerror}; check the path, its permissions and free space", 2
    )


def _sentence(error: TyperException) -> str:
    return error.format_message().rstrip(".")


def _complain(message: str, code: int) -> int:
    typer.echo(f"mujax-pipe: {' '.join(message.split())}", err=True)
    return code


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mujax-pipe {version('mujax-pipe')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def _directory(algo: str, env: str, seed: str) -> str:
    name = env.replace("/", "-").replace(":", "-")
    return f"{CheckpointingConfig().directory}/{algo}-{name}-seed-{seed}"


def _train(
    chosen: Chosen,
    *,
    env: EnvId,
    wrapper: Wrappers = None,
    seed: RunSeed = 0,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", help="Folder.", show_default=_directory("ALGO", "ENV", "SEED")),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--no-resume", help="Go on from where a run of the same settings stopped."
        ),
    ] = True,
    checkpoint_every: Annotated[
        int,
        typer.Option(
            "--checkpoint-every",
            metavar="SECONDS",
            help="How often to save what a stopped run goes on from (0: only when it stops).",
            parser=whole_number,
        ),
    ] = int(CheckpointingConfig().every_sec),
    init_checkpoint: Annotated[
        str | None,
        typer.Option(
            "--init-checkpoint",
            metavar="RUN",
            help="Start from the best of this run: a folder, or a W&B artifact by name.",
        ),
    ] = None,
    writer: Annotated[
        list[str] | None,
        typer.Option("--writer", help="csv, tensorboard, dvclive or wandb; repeat for several."),
    ] = None,
    wandb: Annotated[
        bool, typer.Option("--wandb", help="Log to W&B, and upload each new best.")
    ] = False,
    threads: Threads = 1,
) -> None:
    check_value("--seed", seed, int, {"low": 0, "high": MAX_SEED})
    prepare(threads)
    from mujax_pipe.training import adhoc

    adhoc.train(
        algo=chosen.algo,
        config=chosen.config,
        evaluation=chosen.evaluation,
        env_id=env,
        wrappers=tuple(wrapper or ()),
        seed=seed,
        checkpointing=CheckpointingConfig(
            directory=str(directory or _directory(chosen.algo, env, str(seed))),
            every_sec=checkpoint_every,
            resume=resume,
            upload_to_wandb=wandb,
        ),
        init_checkpoint=init_checkpoint,
        writers=(*(writer or ()), *(["wandb"] if wandb else [])),
    )


for _algo in CONFIGS:
    train_app.command(_algo, help=CONFIGS[_algo].__doc__)(with_settings(_train, _algo))


def _profile(
    chosen: Chosen,
    *,
    env: EnvId,
    wrapper: Wrappers = None,
    seed: RunSeed = 0,
    threads: Threads = 1,
) -> None:
    check_value("--seed", seed, int, {"low": 0, "high": MAX_SEED})
    prepare(threads)
    from mujax_pipe.training.envs import environment_factory
    from mujax_pipe.training.experiment import ExperimentConfig
    from mujax_pipe.training.profile import profile

    profile(
        ExperimentConfig(
            config=chosen.config,
            environment_factory=environment_factory(env, tuple(wrapper or ())),
            seed=seed,
            evaluation=chosen.evaluation,
            title=f"{chosen.algo} {env}",
        )
    )


for _algo in CONFIGS:
    profile_app.command(_algo, help=f"Where the time of {_algo} goes.")(
        with_settings(_profile, _algo)
    )


def _count(flag: str, help: str) -> Any:
    return typer.Option(flag, metavar="N", help=help, parser=whole_number)


@app.command()
def play(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder of a run, or its best/.")],
    env: Annotated[
        str | None, typer.Option("--env", help="Another environment than the one trained in.")
    ] = None,
    wrapper: Annotated[
        list[str] | None,
        typer.Option("--wrapper", help="Other wrappers than those trained with; may be repeated."),
    ] = None,
    episodes: Annotated[int, _count("--episodes", "How many.")] = 3,
    seed: Annotated[int, _count("--seed", "Of the first episode; others count on from it.")] = 0,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="A .gif or .mp4 to film the episodes in."),
    ] = None,
    num_simulations: Annotated[
        int | None, _count("--num-simulations", "Of each search, other than in training.")
    ] = None,
) -> None:
    """Watch a trained policy in the terminal, or film it."""
    check_value("--episodes", episodes, int, {"low": 1})
    check_value("--seed", seed, int, {"low": 0, "high": MAX_SEED})
    if num_simulations is not None:
        check_value("--num-simulations", num_simulations, int, {"low": 1, "high": 4096})
    prepare()
    from mujax_pipe.training.play import play

    play(
        run,
        env_id=env,
        wrappers=wrapper,
        episodes=episodes,
        seed=seed,
        num_simulations=num_simulations,
        record=record,
    )
