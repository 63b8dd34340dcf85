"""The order of events in a run, against tapes written by hand."""

import dataclasses
import types

import numpy as np
import pytest

from mujax_pipe.agents.types import TrainingState
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import schedule
from mujax_pipe.training.schedule import Acted, Evaluated, Learned
from tests.fakes import numbered, tiny_config


class Tape:
    """Plays every role and writes down what it is asked, with which parameters."""

    def __init__(self, scores=()):
        self.events = []
        self._scores = iter(scores)
        self.roles = schedule.Roles(loops=self, learner=self, replay=self, evaluator=self)

    # Environment loops
    def act(self, params, step, num_steps):
        self.events.append(("act", params, num_steps))
        assert step == params
        return numbered(2, num_steps), []

    # Learner and replay: the fake state of both is a count. Nobody but the learner gets the newest
    # parameters.
    def init(self, params=None):
        return TrainingState(params="newest", average=params or 0, opt_state=None, step=0)

    def add(self, state, chunk):
        added = chunk.reward.size + (0 if isinstance(state, TrainingState) else state)
        self.events.append(("add", added))
        return added

    def advance(self, state, replay, num_steps):
        self.events.append(("learn", num_steps, replay))
        step = state.step + num_steps
        state = TrainingState(params="newest", average=step, opt_state=None, step=step)
        return state, {"loss": float(step)}

    # Evaluator
    def play(self, params, step):
        self.events.append(("evaluate", params))
        return types.SimpleNamespace(score=np.array([next(self._scores, 0.0)]))


def run(config, num_steps, every=100, scores=(), **evaluation):
    tape = Tape(scores)
    settings = EvaluationConfig(every=every, num_episodes=1, **evaluation)
    state = schedule.start(tape.roles, settings, None)
    events = list(schedule.run(tape.roles, state, config, num_steps))
    return tape.events, events, state


# 2 environments of 4 steps a chunk: 8 transitions; the first learner step after more than 10.
# One batch of 4 windows is owed per 4 transitions.
CONFIG = tiny_config(min_replay_size=10, num_envs=2, chunk_steps=4, batch_size=4, replay_ratio=1.0)


def test_the_events_of_a_run_by_hand():
    tape, _, _ = run(CONFIG, num_steps=4, every=2)
    assert tape == [
        ("evaluate", 0),
        ("act", 0, 4),
        ("add", 8),  # too few to learn from
        ("act", 0, 4),
        ("add", 16),  # 6 beyond the first 10: one step
        ("learn", 1, 16),
        ("act", 1, 4),
        ("add", 24),  # 14: three steps, of which the first ends at the evaluation
        ("learn", 1, 24),
        ("evaluate", 2),
        ("learn", 1, 24),
        ("act", 3, 4),
        ("add", 32),  # 22: five steps, but the run ends after four
        ("learn", 1, 32),
        ("evaluate", 4),
    ]


def test_the_best_parameters_are_the_averaged_ones_that_were_scored():
    _, _, state = run(CONFIG, num_steps=6, every=2, scores=[1.0, 2.0, 9.0, 3.0])
    assert state.best == 4


def test_events_tell_counts_metrics_and_the_best_score():
    _, events, state = run(CONFIG, num_steps=3, every=2, scores=[1.0, 3.0, 2.0])
    assert events == [
        Evaluated(step=0, env_steps=0, score=1.0, best=True),
        Acted(env_steps=8, episodes=[]),
        Acted(env_steps=16, episodes=[]),
        Learned(step=1, metrics={"loss": 1.0}),
        Acted(env_steps=24, episodes=[]),
        Learned(step=2, metrics={"loss": 2.0}),
        Evaluated(step=2, env_steps=24, score=3.0, best=True),
        Learned(step=3, metrics={"loss": 3.0}),
        Evaluated(step=3, env_steps=24, score=2.0, best=False),
    ]
    assert (state.step, state.env_steps, state.training.step, state.replay) == (3, 24, 3, 24)
    assert (state.selection.best_step, state.selection.best_env_steps) == (2, 24)


def kinds(tape, *names):
    return [event for event in tape if event[0] in names]


def learned(tape):
    """Learner steps taken when each chunk begins."""
    return [event[1] for event in tape if event[0] == "act"]


@pytest.mark.parametrize("replay_ratio", [0.3, 1.0, 2.7])
def test_fractions_of_a_step_are_carried_over(replay_ratio):
    config = dataclasses.replace(CONFIG, replay_ratio=replay_ratio)
    tape, _, state = run(config, num_steps=60)
    for chunk, steps in enumerate(learned(tape)):
        assert steps == max(0, int((8 * chunk - 10) * replay_ratio / 4 + 1e-9))
    assert state.step == 60


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_evaluating_more_often_changes_neither_acting_nor_learning(every):
    seldom, _, _ = run(CONFIG, num_steps=20, every=1000)
    often, _, _ = run(CONFIG, num_steps=20, every=every)
    assert kinds(seldom, "act", "add") == kinds(often, "act", "add")
    steps = lambda tape: [(n, size) for _, n, size in kinds(tape, "learn")]
    per_size = lambda pairs: {
        size: sum(n for n, s in pairs if s == size) for size in {s for _, s in pairs}
    }
    assert per_size(steps(seldom)) == per_size(steps(often))
    expected = [0, *range(every, 20, every), 20]
    assert [event[1] for event in kinds(often, "evaluate")] == expected


def test_the_last_step_is_evaluated_once():
    tape, _, _ = run(CONFIG, num_steps=4, every=4)
    assert [event[1] for event in kinds(tape, "evaluate")] == [0, 4]


def test_patience_stops_right_after_the_evaluation():
    tape, events, state = run(CONFIG, 100, every=2, scores=[5.0, 4.0, 3.0, 2.0], patience=2)
    assert tape[-1] == ("evaluate", 4)
    assert isinstance(events[-1], Evaluated)
    assert state.step == 4


def test_the_state_is_up_to_date_at_each_event():
    tape = Tape()
    settings = EvaluationConfig(every=2, num_episodes=1)
    state = schedule.start(tape.roles, settings, None)
    for event in schedule.run(tape.roles, state, CONFIG, 6):
        if isinstance(event, Acted):
            assert state.env_steps == event.env_steps == state.replay
        else:
            assert state.step == event.step == state.training.step


def test_a_run_may_be_left_and_taken_up_again_at_every_event():
    whole, events, _ = run(CONFIG, num_steps=8, every=3)
    tape = Tape()
    state = schedule.start(tape.roles, EvaluationConfig(every=3, num_episodes=1), None)
    taken = []
    while (event := next(schedule.run(tape.roles, state, CONFIG, 8), None)) is not None:
        taken.append(event)
    assert tape.events == whole
    assert taken == events


def test_a_run_that_is_done_does_nothing_more():
    tape, _, state = run(CONFIG, num_steps=4, every=2)
    again = Tape()
    assert list(schedule.run(again.roles, state, CONFIG, 4)) == []
    assert again.events == []


def test_a_run_that_stopped_early_does_nothing_more():
    tape, _, state = run(CONFIG, 100, every=2, scores=[5.0, 4.0, 3.0], patience=2)
    assert state.step == 4
    assert list(schedule.run(Tape().roles, state, CONFIG, 100)) == []


def test_patience_waits_for_the_evaluation_after_the_least_steps():
    """Stale at step 4 and allowed to stop from step 5 on: the evaluation at 6 is the last event."""
    tape, events, state = run(CONFIG, 100, every=2, scores=[5.0] * 20, patience=2, min_steps=5)
    assert tape[-1] == ("evaluate", 6)
    assert isinstance(events[-1], Evaluated)
    assert state.step == state.evaluated == 6


def test_the_parameters_given_are_the_ones_to_start_from():
    tape = Tape()
    settings = EvaluationConfig(every=2, num_episodes=1)
    state = schedule.start(tape.roles, settings, 7)
    assert (state.training.average, state.best) == (7, 7)
