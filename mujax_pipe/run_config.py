"""Settings of a run that are not the algorithm's: scoring and checkpoints. No JAX here."""

from __future__ import annotations

import dataclasses

from mujax_pipe.settings import setting, validate


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """When and how the policy is scored during training; nothing here changes what is learned."""

    every: int = setting(1000, "Learner steps between evaluations.", low=1, panel="Evaluation")
    num_episodes: int = setting(
        32, "Episodes of each evaluation, on fixed seeds.", low=1, panel="Evaluation"
    )
    score_metric: str = setting(
        "episode_return",
        "What is scored: episode_return, or a key of the last step's info.",
        panel="Evaluation",
    )
    ema: float = setting(
        0.0,
        "Weight of the past in the smoothed score that picks the best checkpoint.",
        low=0.0,
        high=0.999,
        panel="Evaluation",
    )
    patience: int = setting(
        0,
        "Evaluations without improvement before stopping early (0: never).",
        low=0,
        panel="Evaluation",
    )
    min_delta: float = setting(
        0.0, "Smallest gain that counts as improvement for patience.", low=0.0, panel="Evaluation"
    )
    min_steps: int = setting(
        0, "Learner steps before stopping early is allowed.", low=0, panel="Evaluation"
    )

    def __post_init__(self) -> None:
        validate(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointingConfig:
    """Where `best/` and `latest/` go, and when `latest/` is written."""

    directory: str = setting("checkpoints", "Folder of best/ and latest/.", panel="Checkpoints")
    every_sec: float = setting(
        300.0,
        "Seconds between writes of latest/ (0: only at the end or when stopped).",
        low=0.0,
        panel="Checkpoints",
    )
    resume: bool = setting(
        True, "Go on from latest/ where a run of the same settings left it.", panel="Checkpoints"
    )
    upload_to_wandb: bool = setting(
        False, "Upload each new best to the active W&B run.", panel="Checkpoints"
    )

    def __post_init__(self) -> None:
        validate(self)
