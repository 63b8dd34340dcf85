import csv
import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training import experiment as experiment_module
from mujax_pipe.training import replay as replay_module
from mujax_pipe.training.checkpoint import load_metadata, load_params
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from mujax_pipe.training.files import require_writable
from mujax_pipe.training.keys import Episodes, episode_seed
from tests.fakes import Linear, Walk, tiny_config


@pytest.fixture(autouse=True)
def _linear(monkeypatch):
    monkeypatch.setattr(experiment_module, "algorithm_for", Linear)


def describe(directory, factory=lambda index: Walk(), **settings):
    return ExperimentConfig(
        config=tiny_config(),
        environment_factory=factory,
        seed=settings.pop("seed", 3),
        evaluation=settings.pop("evaluation", EvaluationConfig(every=2, num_episodes=3)),
        checkpointing=CheckpointingConfig(directory=str(directory)),
        **{"max_num_learner_steps": 5, **settings},
    )


def test_a_run_leaves_its_folder_finished(tmp_path):
    directory = tmp_path / "deep" / "run"
    environment = {"id": "Walk-v0", "wrappers": []}
    result = run_experiment(describe(directory, environment=environment, extra={"note": "x"}))
    left = sorted(path.name for path in directory.iterdir())
    assert left == ["best", "curve.csv", "last", "latest", "train.json"]

    with (directory / "curve.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["step", "env_steps", "score"]
    assert [(int(a), int(b), float(c)) for a, b, c in rows] == result.curve
    assert [row[0] for row in result.curve] == [0, 2, 4, 5]

    train = json.loads((directory / "train.json").read_text())
    best = max(result.curve, key=lambda row: (row[2], row[0]))
    assert train["best"] == {"step": best[0], "env_steps": best[1], "score": best[2]}
    assert (result.best_step, result.best_score) == (best[0], best[2])
    assert (train["num_learner_steps"], train["num_env_steps"]) == (5, result.curve[-1][1])
    assert (train["environment"], train["seed"], train["num_parameters"]) == ("Walk-v0", 3, 2)
    assert train["config"] == json.loads(json.dumps(dataclasses.asdict(tiny_config())))

    metadata = load_metadata(directory / "best")
    assert (metadata["step"], metadata["env_steps"], metadata["score"]) == best
    assert metadata["environment"] == environment
    assert metadata["environment_spec"] == {"observation_dim": 2, "num_actions": 3}
    assert metadata["extra"] == {"note": "x"}


@pytest.fixture
def scored(monkeypatch):
    """Makes evaluations score what is given; returns the parameters that were scored."""
    play = experiment_module.Evaluator.play

    def give(*scores):
        left, seen = iter(scores), []

        def scored(self, params, step):
            seen.append(jax.tree.map(np.array, params))
            played = play(self, params, step)
            return dataclasses.replace(played, score=np.full(len(played.score), next(left)))

        monkeypatch.setattr(experiment_module.Evaluator, "play", scored)
        return seen

    return give


def test_the_best_parameters_are_kept_and_the_last_beside_them(tmp_path, scored):
    seen = scored(0.0, 9.0, 1.0, 2.0)
    run_experiment(describe(tmp_path))
    assert (seen[1]["w"] != seen[3]["w"]).all()
    for name, params, step, score in (("best", seen[1], 2, 9.0), ("last", seen[3], 5, 2.0)):
        kept = load_params(tmp_path / name, seen[0])
        np.testing.assert_array_equal(kept["w"], params["w"])
        metadata = load_metadata(tmp_path / name)
        assert (metadata["step"], metadata["score"]) == (step, score)


def test_what_another_process_removes_meanwhile_is_there_at_the_end(tmp_path, scored):
    """An engine that is started a second time clears the outputs of the running one."""
    removed = []

    class Clears(Walk):
        def step(self, action):
            if (tmp_path / "best").exists() and not removed:
                removed.append(tmp_path / "best")
                shutil.rmtree(tmp_path / "best")
            return super().step(action)

    scored(9.0, 1.0)
    evaluation = EvaluationConfig(every=100, num_episodes=1)
    run_experiment(describe(tmp_path, lambda index: Clears(), evaluation=evaluation))
    assert removed
    assert load_metadata(tmp_path / "best")["step"] == 0


@pytest.mark.parametrize("change", ["none", "factory", "spec", "threads", "machine"])
def test_another_environment_or_machine_is_another_run(tmp_path, monkeypatch, capsys, change):
    """Environments made by a function of the user's have no id."""

    def first(index):
        return Walk()

    def second(index):
        return Walk()

    def wider(index):
        return Walk(num_actions=4)

    wider.__qualname__ = first.__qualname__
    run_experiment(describe(tmp_path, first))
    if change == "threads":
        monkeypatch.setattr(experiment_module.runtime, "threads", lambda: 2)
    if change == "machine":
        monkeypatch.setattr(experiment_module, "compute_class", lambda config: "another")
    capsys.readouterr()
    run_experiment(describe(tmp_path, {"factory": second, "spec": wider}.get(change, first)))
    printed = "".join(capsys.readouterr())
    assert ("going on from" in printed) == (change == "none")
    assert ("starting anew" in printed) == (change != "none")


def test_a_run_in_a_process_that_has_started_jax_otherwise_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiment_module.runtime, "threads", lambda: None)
    run_experiment(describe(tmp_path))
    assert "warning: JAX had started before" in "".join(capsys.readouterr())
    assert json.loads((tmp_path / "train.json").read_text())["xla_threads"] is None


def test_acting_and_scoring_play_seeds_of_their_own_families(tmp_path):
    acting, scoring = [], []

    def recorded(into):
        return lambda index: into.append(Walk()) or into[-1]

    run_experiment(
        describe(tmp_path, recorded(acting), eval_environment_factory=recorded(scoring), seed=5)
    )
    for index, env in enumerate(acting):
        expected = [episode_seed(Episodes.TRAINING, 5, index, n) for n in range(len(env.seeds))]
        assert env.seeds == expected
        assert len(env.seeds) > 2
    played = {seed for env in scoring for seed in env.seeds}
    assert {episode_seed(Episodes.SELECTION, n) for n in range(3)} <= played
    assert {seed & 3 for seed in played} == {int(Episodes.SELECTION)}
    assert all(env.closed for env in (*acting, *scoring))


def test_environments_are_closed_when_a_run_goes_wrong(tmp_path):
    made = []

    class Fails(Walk):
        def step(self, action):
            raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        run_experiment(describe(tmp_path, lambda index: made.append(Fails()) or made[-1]))
    assert all(env.closed for env in made)


@pytest.mark.parametrize(
    "name",
    ["file", "file/below", "file/far/below", "x" * 300 + "/run"],
)
def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path, name):
    (tmp_path / "file").write_text("kept")
    made = []
    with pytest.raises(UserError, match=r"^folder .* cannot be written \(.*\): name another one$"):
        run_experiment(describe(tmp_path / name, lambda index: made.append(Walk()) or made[-1]))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"
    assert made == []


def test_asking_whether_a_folder_can_be_written_leaves_nothing_behind(tmp_path):
    require_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    require_writable(tmp_path / "kept")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


def test_a_name_that_is_too_long_is_said_before_a_parent_is_made(tmp_path):
    with pytest.raises(UserError, match="a name has more than 255 bytes"):
        require_writable(tmp_path / "new" / ("x" * 300))
    assert list(tmp_path.iterdir()) == []


def test_a_replay_that_does_not_fit_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_module, "available_memory", lambda: 10)
    with pytest.raises(UserError, match="max_replay_size"):
        run_experiment(describe(tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


def test_spaces_that_do_not_fit_leave_nothing_behind(tmp_path):
    def images(index):
        env = Walk()
        env.action_space = None
        return env

    with pytest.raises(UserError, match="Walk has actions"):
        run_experiment(describe(tmp_path / "run", images))
    assert list(tmp_path.iterdir()) == []


def test_without_a_limit_the_config_says_how_long(tmp_path):
    evaluation = EvaluationConfig(every=100, num_episodes=1)
    result = run_experiment(describe(tmp_path, max_num_learner_steps=None, evaluation=evaluation))
    assert [row[0] for row in result.curve] == [0, tiny_config().num_learner_steps]
