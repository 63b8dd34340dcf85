"""Command-line options made from the settings in `config.py`, so a default stands in one place."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import typer

from mujax_pipe.config import CONFIGS, SIZES, MuZeroConfig
from mujax_pipe.errors import UserError
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.settings import check_value, from_mapping, setting_fields, setting_types

T = TypeVar("T")

# Settings whose option has another name than the field; the others are theirs with dashes.
_NAMES = {
    (MuZeroConfig, "num_learner_steps"): "num-steps",
    (EvaluationConfig, "every"): "evaluate-every",
    (EvaluationConfig, "num_episodes"): "evaluate-episodes",
    (EvaluationConfig, "ema"): "score-ema",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """The settings that options ask for."""

    algo: str
    config: MuZeroConfig
    evaluation: EvaluationConfig


def with_settings(command: Callable[..., None], algo: str) -> Callable[..., None]:
    """Returns `command(chosen, **own options)` with options for an algorithm's settings added.

    Those for `--size`, and for every field of its config and of `EvaluationConfig`, arrive at the
    command as one `Chosen`.
    """
    cls = CONFIGS[algo]
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = [_size(), *_parameters(cls), *_parameters(EvaluationConfig), _num_env_steps()]

    def wrapped(**options: Any) -> None:
        theirs = {parameter.name: options.pop(parameter.name) for parameter in own}
        command(_chosen(algo, options), **theirs)

    parameters = [*own, *added]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def _chosen(algo: str, options: dict[str, Any]) -> Chosen:
    """Builds the configs from the options that were given; those left out are None."""
    given = {name: value for name, value in options.items() if value is not None}
    env_steps = given.pop("num_env_steps", None)
    if env_steps is not None and "num_learner_steps" in given:
        raise UserError("--num-steps and --num-env-steps say the same twice: give one of them")
    ours = {_key(EvaluationConfig, name): name for name in setting_fields(EvaluationConfig)}
    evaluation = {field: given.pop(key) for key, field in ours.items() if key in given}
    config = _build(CONFIGS[algo], given)
    if env_steps is not None:
        steps = config.learner_steps_within(env_steps)
        if steps == 0:
            raise UserError(
                f"--num-env-steps is {env_steps}: the first learner step comes after "
                f"{config.env_steps_for(1)} environment steps; raise it, or lower "
                "--min-replay-size or --num-envs"
            )
        config = config.with_num_steps(steps)
    return Chosen(algo=algo, config=config, evaluation=_build(EvaluationConfig, evaluation))


def _build(cls: type[Any], values: dict[str, Any]) -> Any:
    """Builds a config; an error names the option instead of the field."""
    try:
        return from_mapping(cls, values, where="option")
    except UserError as error:
        name, rest = str(error).removeprefix("option.").split(" ", 1)
        flag = f"--{_option(cls, name)}" if name in setting_fields(cls) else f"--{name}"
        raise UserError(f"{flag} {rest}") from None


def _parameters(cls: type[Any]) -> Iterator[inspect.Parameter]:
    """Yields one keyword parameter a setting, which is None unless given."""
    kinds = setting_types(cls)
    for name, field in setting_fields(cls).items():
        kind, choices = kinds[name], field.metadata["choices"]
        listed = typing.get_origin(kind) is tuple
        value: Any = field.default
        default = ",".join(map(str, value)) if listed else value
        option = typer.Option(
            f"--{_option(cls, name)}",
            # The default of the parameter is None, to tell what was given from what was not.
            help=f"{field.metadata['help']} \\[default: {default}]",
            rich_help_panel=field.metadata["panel"],
            metavar="|".join(choices) if choices else _METAVARS.get(kind, "N,N,..."),
            parser=_PARSERS.get(kind),
        )
        yield _keyword(_key(cls, name), option, kind if kind is str else Any)


def _size() -> inspect.Parameter:
    help = "All layer sizes at once; an option for one layer counts after it."
    option = typer.Option("--size", help=help, metavar="|".join(SIZES), rich_help_panel="Network")
    return _keyword("size", option, str)


def _num_env_steps() -> inspect.Parameter:
    help = "Environment steps, instead of --num-steps: converted by the replay ratio."
    option = typer.Option(
        "--num-env-steps",
        help=help,
        metavar="N",
        parser=whole_number,
        rich_help_panel="Optimisation",
    )
    return _keyword("num_env_steps", option)


def _keyword(name: str, option: Any, kind: Any = Any) -> inspect.Parameter:
    annotation: Any = Annotated[kind if kind is Any else kind | None, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _key(cls: type[Any], name: str) -> str:
    """Returns the keyword of a setting; those of the two classes must not meet."""
    return f"evaluation_{name}" if cls is EvaluationConfig else name


def _option(cls: type[Any], name: str) -> str:
    base = EvaluationConfig if cls is EvaluationConfig else MuZeroConfig
    return _NAMES.get((base, name), name.replace("_", "-"))


def whole_number(text: Any) -> int:
    """Reads a whole number from the command line."""
    return _parsed(int, text, "a whole number")


def _number(text: Any) -> float:
    return _parsed(float, text, "a number")


def _whole_numbers(text: Any) -> tuple[int, ...]:
    return _list_of(int, text, "a list of whole numbers, such as 128,128")


def _numbers(text: Any) -> tuple[float, ...]:
    return _list_of(float, text, "a list of numbers, such as 1.0,0.5")


def _list_of(read: Callable[[str], T], text: Any, allowed: str) -> tuple[T, ...]:
    if isinstance(text, tuple):
        return text
    return _parsed(lambda t: tuple(read(number) for number in t.split(",")), text, allowed)


def _parsed(read: Callable[[Any], T], text: Any, allowed: str) -> T:
    try:
        return read(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: allowed is {allowed}") from None


_PARSERS: dict[Any, Callable[[Any], Any]] = {
    int: whole_number,
    float: _number,
    tuple[int, ...]: _whole_numbers,
    tuple[float, ...]: _numbers,
}
_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT", tuple[float, ...]: "X,X,..."}


def prepare(threads: int = 1) -> None:
    """Settles threads and numerics; must come before JAX is imported."""
    from mujax_pipe import runtime

    check_value("--threads", threads, int, {"low": 1, "high": 1024})
    runtime.prepare(threads)
