"""What the tabular environments can give at best, from their own transition tables."""

import gymnasium as gym
import numpy as np
import pytest

from mujax_pipe.params import load_params
from mujax_pipe.training.envs import environment_factory

PARAMS = load_params()
TABULAR = ("frozenlake", "taxi", "cliffwalking")


def optimal_return(env: gym.Env, num_steps: int) -> float:
    """Returns the largest mean return of an episode of at most `num_steps`, by value iteration."""
    table = env.unwrapped.P
    num_states, num_actions = len(table), len(table[0])
    to = np.zeros((num_states, num_actions, num_states))
    reward = np.zeros((num_states, num_actions))
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for probability, following, gain, terminated in outcomes:
                reward[state, action] += probability * gain
                if not terminated:
                    to[state, action, following] += probability
    value = np.zeros(num_states)
    for _ in range(num_steps):
        value = (reward + to @ value).max(axis=1)
    return float(env.unwrapped.initial_state_distrib @ value)


def make(name: str) -> gym.Env:
    environment = PARAMS.environments[name]
    return environment_factory(environment.id, environment.wrappers)(0)


def step_limit(env: gym.Env) -> int:
    """Returns the limit of the innermost `TimeLimit` that cuts episodes."""
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits)


@pytest.mark.parametrize("name", TABULAR)
def test_the_reference_is_the_optimum_of_the_environments_own_table(name):
    env = make(name)
    found = optimal_return(env, step_limit(env))
    env.close()
    assert PARAMS.references[name].score == pytest.approx(found, abs=5e-4)


def test_value_iteration_on_a_table_by_hand():
    """Stay for 1, or try to leave for 5 with an even chance."""

    class Table(gym.Env):
        def __init__(self):
            lost = [(1.0, 1, 0.0, True)]
            leave = [(0.5, 1, 5.0, True), (0.5, 0, 0.0, False)]
            self.P = {0: {0: [(1.0, 0, 1.0, False)], 1: leave}, 1: {0: lost, 1: lost}}
            self.initial_state_distrib = np.array([1.0, 0.0])

    # With three steps staying first, 1 + 3.75, beats leaving first, 2.5 + 1.875.
    assert optimal_return(Table(), 1) == 2.5
    assert optimal_return(Table(), 2) == 3.75
    assert optimal_return(Table(), 3) == pytest.approx(4.75)
