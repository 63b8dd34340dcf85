"""The profile: every piece is there, the sums are right, the advice follows, nothing is written."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from typing import Any

import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.experiment import ExperimentConfig
from mujax_pipe.training.profile import _pieces, profile
from mujax_pipe.training.profile_measure import Ran, _steady_mean
from mujax_pipe.training.profile_report import Piece, Profile, recommend, show
from mujax_pipe.training.replay import Replay
from tests.fakes import SPEC, Walk, tiny_config

PIECES = (
    *("search", "environment", "add", "sample", "reanalyze", "gradient", "evaluation"),
    "overhead",
)


class Forbidden:
    """An observer that must not be told anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the profile called an observer: {name}")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A real profile, what it printed, the folder it ran in, and the environments it made."""
    folder, walks, out = tmp_path_factory.mktemp("profile"), [], io.StringIO()

    def factory(length: int) -> Any:
        return lambda seed: walks.append(Walk(length=length)) or walks[-1]

    experiment = ExperimentConfig(
        config=tiny_config(num_actors=2),
        environment_factory=factory(3),
        # A whole evaluation of this would never end.
        eval_environment_factory=factory(10**9),
        evaluation=EvaluationConfig(every=10, num_episodes=3),
        checkpointing=CheckpointingConfig(directory=str(folder / "checkpoints")),
        observers=(Forbidden(),),
        title="tiny walk",
    )
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        found = profile(experiment, seconds=0.2)
    return {"profile": found, "out": out.getvalue(), "folder": folder, "walks": walks}


def test_every_piece_takes_time_and_the_shares_sum_to_one(measured: dict[str, Any]) -> None:
    found: Profile = measured["profile"]
    assert tuple(piece.name for piece in found.pieces) == PIECES
    assert all(found.shares[name] > 0.0 for name in PIECES[:-1])
    assert found.shares["overhead"] >= 0.0
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert set(found.run_shares) == {"compile", *PIECES}
    assert sum(found.run_shares.values()) == pytest.approx(1.0)
    assert found.run_shares["compile"] > 0.0


def test_the_schedule_was_really_run(measured: dict[str, Any]) -> None:
    found: Profile = measured["profile"]
    assert found.learner_steps_per_second > 0.0
    per_step = found.env_steps_per_second / found.learner_steps_per_second
    assert per_step == pytest.approx(found.env_steps_per_learner_step, rel=0.3) == 4.0
    assert found.episode_length == 3
    assert set(found.compile_seconds) == {"start", "acting", "learning", "evaluation"}
    assert all(found.compile_seconds[name] > 0.0 for name in ("start", "acting", "learning"))
    assert found.replay_bytes == Replay(tiny_config(), SPEC).num_bytes
    assert found.peak_memory_mb > found.replay_bytes / 1e6


def test_nothing_is_written_and_all_is_closed(measured: dict[str, Any]) -> None:
    assert os.listdir(measured["folder"]) == []
    assert measured["walks"] and all(walk.closed for walk in measured["walks"])


def test_the_table_names_every_piece_and_one_recommendation(measured: dict[str, Any]) -> None:
    out = measured["out"]
    text = " ".join(out.split())
    assert "\x1b" not in out, "plain where no terminal shows colours"
    assert max(map(len, out.splitlines())) <= 80
    for label in ("tiny walk", "acting: search", "reanalyze", "evaluation", "2 x 4 steps"):
        assert label in text
    assert text.count("Try first") == 1
    assert " ".join(measured["profile"].recommendation.split()[:6]) in text


def test_one_piece_alone_has_the_whole_share(capsys: pytest.CaptureFixture) -> None:
    show(synthetic(search=1.0))
    assert "100.0%" in capsys.readouterr().out


def synthetic(config: GMZConfig | None = None, **seconds: float) -> Profile:
    """A profile whose pieces take these seconds a learner step."""
    return Profile(
        experiment=ExperimentConfig(
            config=config or GMZConfig(num_learner_steps=100),
            environment_factory=lambda seed: Walk(),
            evaluation=EvaluationConfig(every=100, num_episodes=8),
        ),
        compile_seconds={"start": 1.0, "learning": 9.0},
        pieces=tuple(
            Piece(name=name, seconds=seconds.get(name, 0.0), times=1.0) for name in PIECES
        ),
        learner_steps_per_second=1.0,
        env_steps_per_second=1.0,
        episode_length=20,
        episode_limit=50,
        replay_bytes=1,
        peak_memory_mb=1.0,
    )


def test_shares_and_hours_add_up() -> None:
    found = synthetic(search=0.2, gradient=0.7, evaluation=0.1)
    assert found.shares["gradient"] == pytest.approx(0.7)
    # 10 s of compiling, 100 learner steps of 1 s.
    assert found.run_shares["compile"] == pytest.approx(10 / 110)
    assert found.run_shares["gradient"] == pytest.approx(70 / 110)
    assert found.projected_learner_steps_per_second == pytest.approx(1.0)
    # Before the first learner step 1,000 environment steps, where 128 take 0.2 s.
    assert found.seconds == pytest.approx(10 + 100 + 0.2 * 1000 / 128)
    # Evaluation could take 50 / 20 times as long.
    assert found.seconds_at_limit == pytest.approx(found.seconds + 1.5 * 0.1 * 100)


def test_a_longer_evaluation_is_mentioned_when_it_matters(capsys: pytest.CaptureFixture) -> None:
    show(synthetic(gradient=0.5, evaluation=0.5))
    assert "come to last 50" in " ".join(capsys.readouterr().out.split())
    show(synthetic(gradient=0.99, evaluation=0.01))
    assert "come to last" not in capsys.readouterr().out


CONFIG = GMZConfig(num_envs=16, num_simulations=16, reanalyze_ratio=0.5, replay_ratio=2.0)


@pytest.mark.parametrize(
    ("largest", "parts"),
    [
        ("compile", ("compiling", "--num-steps")),
        ("search", ("--num-envs 32", "--num-simulations 8")),
        ("environment", ("--num-actors 2", "--replay-ratio 4 ")),
        ("add", ("--chunk-steps 16",)),
        ("sample", ("--batch-size 128",)),
        ("reanalyze", ("--reanalyze-ratio 0.25", "saves up to 20%")),
        ("gradient", ("--size",)),
        ("evaluation", ("--evaluate-every 2000",)),
        ("overhead", ("--num-envs 32",)),
    ],
)
def test_the_largest_share_is_what_to_change(largest: str, parts: tuple[str, ...]) -> None:
    names = ("compile", *PIECES)
    shares = {name: 0.4 if name == largest else 0.6 / 8 for name in names}
    advice = recommend(shares, CONFIG, EvaluationConfig(every=1000))
    assert "largest share of the run (40%)" in advice
    for part in parts:
        assert part in advice


def test_advice_stays_within_what_is_allowed() -> None:
    least = dataclasses.replace(CONFIG, num_simulations=1, num_envs=15, num_actors=3)
    for name in ("search", "reanalyze"):
        assert "--num-simulations" not in recommend({name: 1.0}, least, EvaluationConfig())
    # 6 actors cannot share 15 environments.
    assert "--num-actors" not in recommend({"environment": 1.0}, least, EvaluationConfig())


def test_calls_that_compile_do_not_count() -> None:
    # The first compiles; so does the one in which an episode is first truncated.
    assert _steady_mean([(90.0, 1), (2.0, 2), (50.0, 2), (1.0, 1), (2.0, 1)]) == 5.0 / 4


def pieces(num_actors: int, env_step: float) -> dict[str, Piece]:
    """Pieces of a learner step that needs 32 environment steps: 4 steps of 8, 2 chunks."""
    config = GMZConfig(
        batch_size=64, replay_ratio=2.0, num_envs=8, chunk_steps=2, num_actors=num_actors
    )
    experiment = ExperimentConfig(
        config=config,
        environment_factory=lambda seed: Walk(),
        evaluation=EvaluationConfig(every=10, num_episodes=5),
    )
    ran = Ran(
        env_step=env_step,
        learner_step=8.0,
        compile_acting=0.0,
        compile_learning=0.0,
        learner_steps_per_second=1.0,
        env_steps_per_second=1.0,
        longest_episode=1,
    )
    alone = {
        "search": 2.0,
        "environment": 1.0,
        "add": 0.5,
        "sample": 1.0,
        "reanalyze": 2.0,
        "gradient": 1.0,
    }
    return {piece.name: piece for piece in _pieces(experiment, ran, alone, 30.0)}


def test_what_a_learner_step_pays() -> None:
    paid = {name: piece.seconds_per_learner_step for name, piece in pieces(1, 0.5).items()}
    assert paid == pytest.approx(
        {
            "search": 8.0,
            "environment": 4.0,
            "add": 1.0,
            # 8 s in proportion to 1, 2 and 1.
            "sample": 2.0,
            "reanalyze": 4.0,
            "gradient": 2.0,
            # 30 s for five episodes side by side, every ten learner steps.
            "evaluation": 3.0,
            # 32 environment steps take 16 s.
            "overhead": 3.0,
        }
    )


def test_actors_side_by_side_take_no_longer_than_they_took() -> None:
    paid = {name: piece.seconds_per_learner_step for name, piece in pieces(2, 0.5).items()}
    acting = {name: paid[name] for name in ("search", "environment", "add")}
    assert sum(acting.values()) == pytest.approx(16.0)
    assert acting["search"] == pytest.approx(2 * acting["environment"])
    assert paid["overhead"] == 0.0
