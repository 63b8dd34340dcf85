"""A run that is stopped and taken up again ends with the bytes of the straight run."""

import dataclasses
import functools
import json
import os
import signal
import types

import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mujax_pipe.agents import algorithm_for
from mujax_pipe.config import MuZeroConfig, SMZConfig
from mujax_pipe.errors import RunError, StoppedError
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training import experiment as experiment_module
from mujax_pipe.training import schedule
from mujax_pipe.training.actor import Actor
from mujax_pipe.training.environment_loop import EnvironmentLoops
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.replay import Replay
from mujax_pipe.training.saving import Saver
from mujax_pipe.training.vector_envs import make_batch
from tests.fakes import Linear, Walk, tiny_config

SEED = 5
# Replay is full, and overwritten, well before the last step.
SETTINGS = {"num_envs": 4, "num_actors": 2, "reanalyze_ratio": 0.5, "max_replay_size": 64}


def smz_config(**settings):
    """What `tiny_config` is for GMZ."""
    tiny = tiny_config(**settings)
    shared = {field.name: getattr(tiny, field.name) for field in dataclasses.fields(MuZeroConfig)}
    return SMZConfig(num_codes=3, encoder_layer_sizes=(8,), chance_layer_sizes=(8,), **shared)


class Run:
    """All of a run that lasts only as long as its process; `programs` outlive it here.

    Compiled programs hold nothing of a run, and compiling them again takes all of a test's time:
    tests with processes of their own do that.
    """

    def __init__(self, programs, directory):
        self._programs = programs
        config, share = programs.config, programs.config.num_envs // programs.config.num_actors
        batches = [
            make_batch(
                programs.factory,
                share,
                lambda i, e, first=share * n: episode_seed(Episodes.TRAINING, SEED, first + i, e),
            )
            for n in range(config.num_actors)
        ]
        self.roles = schedule.Roles(
            loops=EnvironmentLoops(programs.algorithm, batches, SEED),
            learner=programs.learner,
            replay=programs.replay,
            evaluator=programs.evaluator,
        )
        self.state = schedule.start(self.roles, programs.evaluation, programs.params)
        self.lines = []
        self.saver = Saver(
            directory,
            self.roles,
            self.state,
            key="a",
            every_sec=0.0,
            resume=True,
            report=self.lines.append,
        )
        self.saver.resume()

    def events(self):
        return schedule.run(self.roles, self.state, self._programs.config, 20)

    def finish(self):
        events = list(self.events())
        self.roles.loops.close()
        return events

    def seen(self):
        """Everything that a run comes to."""
        state = self.state
        return {
            "training": jax.tree.map(np.array, state.training),
            "replay": jax.tree.map(np.array, state.replay),
            "best": state.best,
            "loops": self.roles.loops.snapshot(),
            "counts": (state.step, state.env_steps),
            "curve": state.curve,
            "selection": dataclasses.asdict(state.selection),
        }


def make_programs(algorithm_of, config, factory, **evaluation):
    batch = make_batch(factory, 1, lambda i, e: 0)
    algorithm = algorithm_of(config, batch.spec)
    batch.close()
    settings = EvaluationConfig(**{"every": 3, "num_episodes": 3, "ema": 0.5, **evaluation})
    replay = Replay(config, algorithm.spec)
    learner = Learner(algorithm, replay, SEED)
    return types.SimpleNamespace(
        algorithm=algorithm,
        config=config,
        factory=factory,
        evaluation=settings,
        replay=replay,
        learner=learner,
        params=jax.tree.map(np.array, learner.init().params),
        evaluator=Evaluator(algorithm, factory, Episodes.SELECTION, 3),
        actor=Actor(algorithm, SEED),
    )


@pytest.fixture
def share_programs(monkeypatch):
    """Makes the actors of all runs of a test use the same compiled programs."""

    def share(programs):
        monkeypatch.setattr(
            "mujax_pipe.training.environment_loop.Actor", lambda algorithm, seed: programs.actor
        )
        return programs

    return share


def assert_same_bytes(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, x), y in zip(jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        where = jax.tree_util.keystr(path)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), where
        assert x.tobytes() == y.tobytes(), f"{where}: {x} is not {y}"


def stopped_run(programs, directory, stops):
    """Saves and starts afresh after each number of events in `stops`; returns the finished run."""
    events = []
    while True:
        run = Run(programs, directory)
        for event in run.events():
            events.append(event)
            if len(events) in stops:
                run.saver.save()
                break
        else:
            run.roles.loops.close()
            return run, events
        run.roles.loops.close()


def compare(programs, directory, stops):
    straight = Run(programs, directory / "straight")
    expected = straight.finish()
    stops = range(1, len(expected)) if stops is None else stops
    run, events = stopped_run(programs, directory / "stopped", stops)
    assert max(stops) < len(expected)
    assert events == expected
    assert_same_bytes(run.seen(), straight.seen())
    return expected


@pytest.fixture(scope="module")
def walks():
    """Episodes of one to nine steps, so that some are open at each stop and some end there."""
    return make_programs(
        Linear, tiny_config(**SETTINGS), lambda index: Walk(length=(1, 9), ends="truncated")
    )


def test_stopped_after_every_single_event(walks, share_programs, tmp_path):
    events = compare(share_programs(walks), tmp_path, None)
    kinds = [type(event).__name__ for event in events]
    assert min(kinds.count(kind) for kind in ("Acted", "Learned", "Evaluated")) > 5


def test_going_back_to_an_older_save_comes_to_the_same(walks, share_programs, tmp_path):
    """A crash loses what came after the last save, and it is done again alike."""
    share_programs(walks)
    straight = Run(walks, tmp_path / "straight")
    expected = straight.finish()
    crashed, events = Run(walks, tmp_path / "crashed"), []
    for event in crashed.events():
        events.append(event)
        if len(events) == 9:
            crashed.saver.save()
        if len(events) == 16:
            break
    crashed.roles.loops.close()
    again = Run(walks, tmp_path / "crashed")
    rest = again.finish()
    assert events[:9] + rest == expected
    assert_same_bytes(again.seen(), straight.seen())


def test_stopped_around_an_early_stop(share_programs, tmp_path):
    """Patience counts evaluations from before a stop; scores of one fixed reward never gain."""
    programs = make_programs(
        Linear,
        tiny_config(**SETTINGS),
        lambda index: Walk(length=4, reward=1.0),
        patience=2,
        min_steps=4,
    )
    events = compare(share_programs(programs), tmp_path, None)
    assert events[-1].step < 20
    assert isinstance(events[-1], schedule.Evaluated)


CASES = {
    "gmz-cartpole": (tiny_config, "CartPole-v1", ()),
    "smz-frozenlake": (smz_config, "FrozenLake-v1", ("flatten",)),
}


# Compiling takes most of the time; processes that are killed play GMZ on CartPole by default.
@pytest.mark.parametrize(
    "case", [pytest.param("gmz-cartpole", marks=pytest.mark.slow), "smz-frozenlake"]
)
def test_real_algorithms_in_real_environments(case, share_programs, tmp_path):
    make_config, env_id, wrappers = CASES[case]
    config = make_config(**SETTINGS, exploration=(0.5, 0.2), exploration_repeat=4)
    programs = make_programs(
        algorithm_for, config, environment_factory(env_id, wrappers), patience=9
    )
    compare(share_programs(programs), tmp_path, [1, 4, 5, 6, 13, 20])


def test_an_environment_that_is_no_function_of_its_seed_is_an_error(share_programs, tmp_path):
    class Moody(Walk):
        def reset(self, **kwargs):
            _, info = super().reset(**kwargs)
            self._observation += np.random.default_rng().normal(size=2)
            return self._observation, info

    programs = make_programs(Linear, tiny_config(**SETTINGS), lambda index: Moody(length=50))
    share_programs(programs)
    with pytest.raises(RunError, match="environment 0 cannot be resumed"):
        stopped_run(programs, tmp_path, [3])


# Vector environments that cannot be rebuilt.


class Foreign(SyncVectorEnv):
    """No plain SyncVectorEnv, so nothing is known of what is inside."""


class Fresh(Walk):
    """Hands out a new array each time: Gymnasium keeps the last one of an episode, uncopied."""

    def step(self, action):
        observation, *rest = super().step(action)
        return observation.copy(), *rest


def foreign(*walks):
    return Foreign(
        [functools.partial(Fresh, **walk) for walk in walks], autoreset_mode=AutoresetMode.SAME_STEP
    )


def test_open_episodes_that_cannot_be_rebuilt_are_cut(share_programs, tmp_path):
    """At the stop after four steps one episode is open; one was just cut, one just over."""
    walks = [
        {"length": 9},
        {"length": 4, "ends": "truncated"},
        {"length": 4, "ends": "terminated"},
    ]
    config = tiny_config(num_envs=3, num_actors=1)
    programs = make_programs(Linear, config, lambda index: foreign(*walks))
    share_programs(programs)
    run = Run(programs, tmp_path)
    for event in run.events():
        if isinstance(event, schedule.Acted):
            break
    before = jax.tree.map(np.array, run.state.replay.experience)
    run.saver.save()
    run.roles.loops.close()

    again = Run(programs, tmp_path)
    after = jax.tree.map(np.array, again.state.replay.experience)
    assert any("open episodes are cut" in line for line in again.lines)
    newest = 3
    assert before.truncated[:, newest].tolist() == [False, True, False]
    assert after.truncated[:, newest].tolist() == [True, True, False]
    params = again.state.training.average
    value = before.observation[0, newest] @ np.asarray(params["w"])
    assert after.bootstrap_value[0, newest] == pytest.approx(value, rel=1e-5)
    # What the environment cut itself has the value of its own last observation.
    assert after.bootstrap_value[1, newest] == before.bootstrap_value[1, newest] != 0.0
    assert after.bootstrap_value[2, newest] == 0.0
    # Nothing else changed.
    for field in dataclasses.fields(before):
        now, then = getattr(after, field.name).copy(), getattr(before, field.name)
        if field.name in ("truncated", "bootstrap_value"):
            now[:, newest] = then[:, newest]
        np.testing.assert_array_equal(now, then)
    assert len(again.finish()) > 10


def test_a_run_that_was_cut_says_so_in_its_results(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment_module, "algorithm_for", Linear)
    steps = []

    class Kills(Fresh):
        def step(self, action):
            steps.append(action)
            if len(steps) == 50:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(action)

    def factory(index):
        return Foreign([lambda: Kills(length=6)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)

    experiment = ExperimentConfig(
        config=tiny_config(),
        environment_factory=factory,
        eval_environment_factory=lambda index: Walk(),
        seed=SEED,
        evaluation=EvaluationConfig(every=5, num_episodes=2),
        checkpointing=CheckpointingConfig(directory=str(tmp_path / "run")),
    )
    with pytest.raises(StoppedError):
        run_experiment(experiment)
    assert not (tmp_path / "run" / "train.json").exists()
    result = run_experiment(experiment)
    assert result.exact_resume is False
    train = json.loads((tmp_path / "run" / "train.json").read_text())
    assert train["exact_resume"] is False
    assert [row[0] for row in result.curve] == [0, 5, 10, 15, 20]


@pytest.mark.parametrize("vector", [False, True])
def test_every_environment_of_a_run_has_seeds_of_its_own(tmp_path, monkeypatch, vector):
    """Also where vector environments bring more than `num_envs` says."""
    monkeypatch.setattr(experiment_module, "algorithm_for", Linear)
    made = []

    def single():
        made.append(Walk(length=3))
        return made[-1]

    def several(index):
        return SyncVectorEnv([single] * 4, autoreset_mode=AutoresetMode.SAME_STEP)

    experiment = ExperimentConfig(
        config=tiny_config(num_envs=4, num_actors=2, max_replay_size=400),
        environment_factory=several if vector else lambda index: single(),
        eval_environment_factory=lambda index: Walk(),
        max_num_learner_steps=2,
        evaluation=EvaluationConfig(every=5, num_episodes=2),
        checkpointing=CheckpointingConfig(directory=str(tmp_path / "run")),
    )
    run_experiment(experiment)
    first = [env.seeds[0] for env in made]
    assert len(first) == (8 if vector else 4)
    assert len(set(first)) == len(first)
    assert first == [episode_seed(Episodes.TRAINING, 0, index, 0) for index in range(len(first))]


def test_a_finished_run_is_found_done(tmp_path, monkeypatch):
    """The same command again plays nothing, and leaves the same results."""
    monkeypatch.setattr(experiment_module, "algorithm_for", Linear)
    stepped = []

    class Counts(Walk):
        def step(self, action):
            stepped.append(action)
            return super().step(action)

    experiment = ExperimentConfig(
        config=tiny_config(),
        environment_factory=lambda index: Counts(),
        max_num_learner_steps=5,
        evaluation=EvaluationConfig(every=2, num_episodes=2),
        checkpointing=CheckpointingConfig(directory=str(tmp_path)),
    )
    first = run_experiment(experiment)
    count = len(stepped)
    files = {name: (tmp_path / name).read_bytes() for name in ("curve.csv", "train.json")}
    again = run_experiment(experiment)
    # The open episodes are replayed when the actors are restored, and nothing else is played.
    assert len(stepped) - count < 2 * 3
    assert (again.curve, again.best_step) == (first.curve, first.best_step)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
