"""Playing a trained policy: what is shown is what it does; films are whole or not there."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import jax
import numpy as np
import pytest
from PIL import Image

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.types import EnvironmentSpec
from mujax_pipe.errors import UserError
from mujax_pipe.layout import CellFiles
from mujax_pipe.training import play as play_module
from mujax_pipe.training.checkpoint import save_best
from mujax_pipe.training.envs import make_environment
from mujax_pipe.training.inference import load_policy
from mujax_pipe.training.play import Episode, film_best, play
from tests.fakes import SPEC, Walk, tiny_config
from tests.unit.finished_cells import make_params


class Painted(Walk):
    """A walk that draws itself; its actions count from 1 and most are illegal."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    made: ClassVar[list[Painted]] = []

    def __init__(self, render_mode: str | None = None, fail_at: int = 0, length: int = 4):
        super().__init__(length=length, start=1, masked=True)
        self.render_mode = render_mode
        self._fail_at = fail_at
        self.made.append(self)

    def step(self, action: int) -> Any:
        # The one legal action moves on by one at each step.
        assert action - 1 == self._time % 3
        if self._time + 1 == self._fail_at:
            raise RuntimeError("broken")
        return super().step(action)

    def render(self) -> np.ndarray:
        frame = np.zeros((60, 800, 3), np.uint8)
        frame[:, 100 * self._time : 100 * (self._time + 1)] = 255
        return frame


@pytest.fixture(autouse=True)
def painted() -> Any:
    """Registers the drawing walk, and forgets it and its environments."""
    gym.register("Painted-v0", entry_point=Painted, disable_env_checker=True)
    Painted.made.clear()
    yield
    del gym.registry["Painted-v0"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of runs with random parameters."""
    folder = tmp_path_factory.mktemp("runs")
    specs = {
        "lake": (EnvironmentSpec(observation_dim=16, num_actions=4), "FrozenLake-v1", ["flatten"]),
        "cartpole": (EnvironmentSpec(observation_dim=4, num_actions=2), "CartPole-v1", []),
        "painted": (SPEC, "Painted-v0", []),
        "unnamed": (SPEC, None, []),
    }
    for name, (spec, env_id, wrappers) in specs.items():
        config = tiny_config()
        environment = {"id": env_id, "wrappers": wrappers} if env_id else {}
        metadata = {
            "algorithm": "gmz",
            "config": dataclasses.asdict(config),
            "environment": environment,
            "environment_spec": spec._asdict(),
            "step": 3000,
            "score": 1.5,
        }
        save_best(folder / name / "best", GMZ(config, spec).init(jax.random.key(0)), metadata)
    return {name: str(folder / name) for name in specs}


def by_hand(run: str, env_id: str, wrappers: list[str], seed: int) -> tuple[float, int]:
    """Return and length of an episode of the same policy, played without `play`."""
    policy, env = load_policy(run), make_environment(env_id, wrappers)
    observation, _ = env.reset(seed=seed)
    total, length, over = 0.0, 0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
        total, length, over = total + float(reward), length + 1, terminated or truncated
    return total, length


def test_an_environment_that_draws_text_is_drawn(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    played = play(runs["lake"], episodes=2, seed=5)
    out = capsys.readouterr().out
    for index, episode in enumerate(played):
        expected = by_hand(runs["lake"], "FrozenLake-v1", ["flatten"], 5 + index)
        assert (episode.episode_return, episode.length) == expected
        assert f"seed {5 + index}: return {expected[0]:g}, length {expected[1]} (" in out
    steps = sum(episode.length for episode in played)
    assert out.count("SFFF") == steps + 2, "a frame after each reset and each step"
    assert out.count("action ") == out.count("value ") == out.count("reward ") == steps
    assert "one at 0 of 16  action" in out
    assert "\x1b" not in out
    assert out.startswith(
        "gmz in FrozenLake-v1: checkpoint of step 3,000, score 1.5, 2 simulations a move\n"
    )
    assert f"mean return {np.mean([e.episode_return for e in played]):.6g}, mean length" in out


def test_other_environments_are_a_line_a_step(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (episode,) = play(runs["cartpole"], episodes=1, seed=7, num_simulations=1)
    title, *steps, summary = capsys.readouterr().out.splitlines()
    assert title.endswith("1 simulation a move")
    assert len(steps) == episode.length
    start = make_environment("CartPole-v1").reset(seed=7)[0]
    numbers = steps[0].split("[")[1].split("]")[0].split()
    np.testing.assert_allclose([float(n) for n in numbers], start, atol=1e-3)
    assert steps[0].endswith("reward 1")
    assert summary == f"seed 7: return {episode.length}, length {episode.length} (ended)"


def test_masks_and_the_start_of_actions_are_kept(runs: dict[str, str]) -> None:
    # `Painted.step` accepts nothing but the one legal action.
    (episode,) = play(runs["painted"], episodes=1)
    assert episode.length == 4
    assert all(env.unwrapped.closed for env in Painted.made)


def test_a_film_holds_every_frame(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "new" / "film.gif"
    played = play(runs["painted"], episodes=2, record=path)
    assert [(e.seed, e.length) for e in played] == [(0, 4), (1, 4)]
    with Image.open(path) as film:
        assert film.n_frames == 10
        assert film.size == (400, 30)
        milliseconds = 0
        for index in range(film.n_frames):
            film.seek(index)
            milliseconds += film.info["duration"]
            row = np.asarray(film.convert("L"))[15]
            time = index % 5
            assert row[50 * time + 25] > 250 and (row > 128).sum() == pytest.approx(50, abs=4)
    assert milliseconds == 10 * 100
    assert list(path.parent.iterdir()) == [path]
    out = capsys.readouterr().out
    assert "action" not in out
    assert f"10 frames (1.0 s) in {path}" in out.replace("\n", "")


def test_a_broken_film_is_not_left_behind(runs: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"before")
    gym.register("Broken-v0", entry_point=Painted, kwargs={"fail_at": 3}, disable_env_checker=True)
    try:
        with pytest.raises(RuntimeError, match="broken"):
            play(runs["painted"], env_id="Broken-v0", record=path)
    finally:
        del gym.registry["Broken-v0"]
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("film.gif", b"before")]


@pytest.fixture
def imageio(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands in for imageio with ffmpeg; returns what it was given."""
    given: dict[str, Any] = {"frames": []}

    def get_writer(path: Path, **options: Any) -> Any:
        given.update(options)
        path.write_bytes(b"film")
        return types.SimpleNamespace(append_data=given["frames"].append, close=lambda: None)

    package, v2 = types.ModuleType("imageio"), types.ModuleType("imageio.v2")
    package.v2, v2.get_writer = v2, get_writer  # type: ignore[attr-defined]
    modules = {
        "imageio": package,
        "imageio.v2": v2,
        "imageio_ffmpeg": types.ModuleType("imageio_ffmpeg"),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return given


def test_mp4_goes_to_imageio(runs: dict[str, str], imageio: dict[str, Any], tmp_path: Path) -> None:
    play(runs["painted"], episodes=1, record=tmp_path / "film.mp4")
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    assert [frame.shape for frame in imageio["frames"]] == [(60, 800, 3)] * 5
    assert imageio["fps"] == 10


def test_mp4_without_imageio_says_what_to_do(
    runs: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "imageio", None)
    with pytest.raises(UserError, match=r'needs imageio.* \.gif, or pip install "imageio\[ffmpeg'):
        play(runs["painted"], record=tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


def test_drawing_without_pygame_says_what_to_install(
    runs: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match=r"CartPole-v1 cannot be drawn: pygame is not installed"):
        play(runs["cartpole"], record=tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


def test_an_episode_without_end_is_left(
    runs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play_module, "_MOST_STEPS", 3)
    (episode,) = play(runs["painted"], episodes=1)
    assert episode == Episode(
        seed=0,
        episode_return=episode.episode_return,
        length=3,
        ended="left after 3 steps",
    )


@pytest.mark.parametrize(
    ("run", "options", "part"),
    [
        ("lake", {"env_id": "CartPole-v1", "wrappers": ()}, "was trained with 16 and 4"),
        ("lake", {"wrappers": ()}, "add the wrapper `flatten`"),
        ("unnamed", {}, "add --env ID"),
        ("painted", {"record": Path("x.avi")}, "'x.avi': allowed are names in .gif, .mp4"),
        ("painted", {"num_simulations": 0}, "num_simulations is 0"),
    ],
)
def test_mistakes_are_named(
    runs: dict[str, str], run: str, options: dict[str, Any], part: str
) -> None:
    with pytest.raises(UserError) as caught:
        play(runs[run], **options)
    assert part in str(caught.value)


def test_what_cannot_draw_images_is_refused(runs: dict[str, str], tmp_path: Path) -> None:
    gym.register("Plain-v0", entry_point=lambda: Walk())
    try:
        with pytest.raises(UserError, match="Plain-v0 draws no images"):
            play(runs["unnamed"], env_id="Plain-v0", record=tmp_path / "x.gif")
    finally:
        del gym.registry["Plain-v0"]


def test_env_names_the_environment_of_a_run_that_does_not(runs: dict[str, str]) -> None:
    (episode,) = play(runs["unnamed"], env_id="Painted-v0", episodes=1)
    assert episode.length == 4


def test_a_film_for_a_report_is_short_and_of_the_best_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params = make_params(envs=["painted"], seeds=[0, 1, 2])
    params.environments["painted"].id = "Painted-v0"
    params.environments["painted"].wrappers = ()
    config = tiny_config()
    for cell, score in zip(params.cells(), (1.0, 3.0, 2.0), strict=True):
        files = CellFiles(cell, tmp_path)
        metadata = {
            "algorithm": "gmz",
            "config": dataclasses.asdict(config),
            "environment_spec": SPEC._asdict(),
            "step": 100 + cell.seed,
        }
        save_best(files.best, GMZ(config, SPEC).init(jax.random.key(0)), metadata)
        files.evaluation_json.write_text(json.dumps({"mean": score}))
    film_best(params, "painted", tmp_path / "film.gif", tmp_path)
    assert "checkpoint of step 101" in capsys.readouterr().out
    with Image.open(tmp_path / "film.gif") as image:
        assert 1 < image.n_frames <= 150
    with pytest.raises(UserError, match="no cell of lake is finished"):
        film_best(params, "lake", tmp_path / "film.gif", tmp_path)


def test_no_more_frames_are_recorded_than_asked_for(runs: dict[str, str], tmp_path: Path) -> None:
    played = play(runs["painted"], episodes=50, record=tmp_path / "film.gif", frames=7)
    assert sum(episode.length + 1 for episode in played) <= 7
