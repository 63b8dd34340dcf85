"""What of the events of a run reaches the writers, and when."""

import pytest

from mujax_pipe.training.environment_loop import Episode
from mujax_pipe.training.logs import RunLog
from mujax_pipe.training.schedule import Acted, Evaluated, Learned


class Keeps:
    """Keeps what it is told."""

    def __init__(self):
        self.rows, self.configs, self.models, self.closed = [], [], [], 0

    def write(self, step, scalars):
        self.rows.append((step, dict(scalars)))

    def write_config(self, config):
        self.configs.append(config)

    def log_model(self, directory, name, metadata):
        self.models.append((directory, name, metadata))

    def close(self):
        self.closed += 1


class Fails(Keeps):
    """Fails at the second write."""

    def write(self, step, scalars):
        super().write(step, scalars)
        if len(self.rows) == 2:
            raise OSError("disk is full")


class Counts:
    """An observer that tells how often it was asked."""

    def __init__(self):
        self.asked = 0

    def observe(self, **seen):
        raise AssertionError("actors call observers")

    def metrics(self):
        self.asked += 1
        return {"asked": float(self.asked)}


def make_log(*writers, observers=(), every=10):
    lines = []
    return RunLog(writers, observers, every, lines.append), lines


def acted(env_steps, *returns):
    episodes = [Episode(episode_return=value, length=int(10 * value)) for value in returns]
    return Acted(env_steps=env_steps, episodes=episodes)


def learned(step):
    return Learned(step=step, metrics={"loss": float(step), "grad_norm": 0.5})


@pytest.mark.parametrize(
    ("every", "expected"),
    [(10, [10, 25, 30, 49]), (1, [4, 9, 10, 25, 26, 30, 49]), (100, [])],
)
def test_scalars_are_written_at_the_first_step_at_or_after_each_multiple(every, expected):
    keeps = Keeps()
    log, _ = make_log(keeps, every=every)
    for step in (4, 9, 10, 25, 26, 30, 49):
        log.take(learned(step))
    assert [step for step, _ in keeps.rows] == expected


def test_every_scalar_says_who_it_is_of():
    keeps = Keeps()
    log, _ = make_log(keeps, observers=[Counts()])
    log.take(acted(16, 1.0))
    log.take(acted(32, 3.0, 5.0))
    log.take(learned(10))
    assert keeps.rows == [
        (
            10,
            {
                "learner/loss": 10.0,
                "learner/grad_norm": 0.5,
                "actor/env_steps": 32,
                "actor/episode_return": 3.0,
                "actor/episode_length": 30.0,
                "actor/asked": 1.0,
            },
        )
    ]


def test_episodes_count_once_and_are_left_out_when_none_ended():
    keeps = Keeps()
    log, _ = make_log(keeps)
    log.take(acted(16, 1.0))
    log.take(learned(10))
    log.take(acted(32))
    log.take(learned(20))
    log.take(acted(48, 7.0))
    log.take(learned(30))
    means = [scalars.get("actor/episode_return") for _, scalars in keeps.rows]
    assert means == [1.0, None, 7.0]


def test_observers_are_asked_once_a_write():
    counts = Counts()
    log, _ = make_log(Keeps(), observers=[counts])
    for step in (5, 10, 11, 20):
        log.take(learned(step))
    assert counts.asked == 2


def test_evaluations_are_written_at_once():
    keeps = Keeps()
    log, _ = make_log(keeps, every=1000)
    log.take(Evaluated(step=3, env_steps=24, score=1.5, best=False))
    assert keeps.rows == [(3, {"evaluator/score": 1.5, "evaluator/env_steps": 24})]


def test_a_writer_that_fails_is_reported_once_and_dropped():
    fails, keeps = Fails(), Keeps()
    log, lines = make_log(fails, keeps, every=1)
    for step in range(1, 6):
        log.take(learned(step))
    log.upload("best", "run", {})
    log.close()
    assert len(lines) == 1
    assert "Fails failed and is dropped" in lines[0] and "disk is full" in lines[0]
    assert [step for step, _ in fails.rows] == [1, 2]
    assert [step for step, _ in keeps.rows] == [1, 2, 3, 4, 5]
    assert (len(fails.models), len(keeps.models)) == (0, 1)
    assert keeps.closed == 1


def test_the_config_and_the_best_checkpoint_are_handed_on():
    keeps = Keeps()
    log, _ = make_log(keeps)
    log.config({"seed": 3})
    log.upload("best", "run", {"step": 7})
    assert keeps.configs == [{"seed": 3}]
    assert keeps.models == [("best", "run", {"step": 7})]
