"""How well a model learns what actions are worth where chance decides: FrozenLake, by exact values.

    python benchmarks/action_values.py --set bootstrap_steps=1 --set averaging=0.999

Gumbel MuZero learns from a replay of uniformly random steps alone, so nothing but the learner is at
work: no search, no exploration. Every 500 learner steps the action values of its model, reward plus
discounted value one step ahead, are compared with those of the random policy, which are known from
the environment's own table; and with what a table of the replayed steps says, the best that these
data allow. Prints the correlation over actions, averaged over states.

    python benchmarks/action_values.py --of results/cells/gmz/frozenlake/seed-1/last

The same of a trained Gumbel MuZero, state by state, with the exact values of its own policy (the
prior): what it thinks of the action that it takes, and of the others.
"""

import argparse
from typing import Any

import numpy as np
import yaml

from mujax_pipe import runtime

GAMMA, NUM_ENVS = 0.99, 16


def exact(
    transitions: np.ndarray, rewards: np.ndarray, policy: np.ndarray | float = 0.25
) -> np.ndarray:
    """Returns the action values [S, A] of a policy.

    Args:
      transitions: [S, A, S], the probability of each next state; an end is none.
      rewards: [S, A].
      policy: [S, A]; the uniform one if not given.
    """
    value = np.zeros(len(rewards))
    for _ in range(5000):
        value = (policy * (rewards + GAMMA * transitions @ value)).sum(axis=1)
    return rewards + GAMMA * transitions @ value


def action_values(algorithm: Any, params: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns what a model says of each action [S, A], and its prior policy [S, A]."""
    import jax
    import jax.numpy as jnp

    root = algorithm.root(params, jnp.eye(16))
    ahead = [
        algorithm._recurrent(params, None, jnp.full(16, action), root.embedding)[0]
        for action in range(4)
    ]
    found = jnp.stack([one.reward + GAMMA * one.value for one in ahead], axis=1)
    return np.asarray(found), np.asarray(jax.nn.softmax(root.prior_logits))


def look_at(run: str) -> None:
    """Prints what a trained model says of each action and what it is worth."""
    import gymnasium as gym

    from mujax_pipe import load_policy

    trained = load_policy(run)
    found, policy = action_values(trained.algorithm, trained.params)
    env: Any = gym.make("FrozenLake-v1").unwrapped
    true = exact(*table_of(env), policy)
    live = [state for state, tile in enumerate(env.desc.reshape(-1)) if tile in b"SF"]
    print("| state | model, by action | exact, by action | taken | best |\n|--:|:--|:--|--:|--:|")
    for state in live:
        shown = (" ".join(f"{value:.3f}" for value in of[state]) for of in (found, true))
        ranks = f"{policy[state].argmax()} | {true[state].argmax()}"
        print(f"| {state} | {' | '.join(shown)} | {ranks} |")
    error = (found - true)[live]
    taken = policy[live].argmax(axis=1)[:, None] == np.arange(4)
    print(
        f"model minus exact: taken {error[taken].mean():+.3f}, others {error[~taken].mean():+.3f}"
    )


def table_of(env: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns the transitions and rewards of a tabular environment."""
    states, actions = env.observation_space.n, env.action_space.n
    transitions, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    for state, action in np.ndindex(states, actions):
        for chance, after, reward, ended in env.P[state][action]:
            rewards[state, action] += chance * reward
            transitions[state, action, after] += chance * (not ended)
    return transitions, rewards


def counted(steps: Any, states: int, actions: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the transitions and rewards that replayed steps [B, T] suggest."""
    transitions, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    state = steps.observation.argmax(axis=-1)
    number = np.zeros((states, actions))
    keep = ~steps.truncated[:, :-1]
    at = state[:, :-1][keep], steps.action[:, :-1][keep]
    np.add.at(number, at, 1.0)
    np.add.at(rewards, at, steps.reward[:, :-1][keep])
    np.add.at(transitions, (*at, state[:, 1:][keep]), steps.discount[:, :-1][keep])
    number = np.maximum(number, 1.0)
    return transitions / number[..., None], rewards / number


def agreement(found: np.ndarray, true: np.ndarray) -> float:
    """Returns the mean correlation over states of what tells actions apart."""
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(found, true, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-steps", type=int, default=40_000)
    parser.add_argument("--learner-steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--of", metavar="RUN", help="a trained run, looked at and not trained")
    options = parser.parse_args()
    runtime.prepare(1)
    if options.of:
        look_at(options.of)
        return
    import gymnasium as gym

    from mujax_pipe import GMZConfig, algorithm_for
    from mujax_pipe.settings import from_mapping
    from mujax_pipe.training.environment_loop import EnvironmentLoops
    from mujax_pipe.training.envs import make_environment
    from mujax_pipe.training.learner import Learner
    from mujax_pipe.training.replay import Replay
    from mujax_pipe.training.vector_envs import make_batch

    given = {
        name: yaml.safe_load(value) for name, _, value in (s.partition("=") for s in options.set)
    }
    plain = {
        "batch_size": 64,
        "num_envs": NUM_ENVS,
        "num_learner_steps": options.learner_steps,
        "exploration": [1.0],
        "off_policy": "ignore",
        "reanalyze_ratio": 0.0,
    }
    config = from_mapping(GMZConfig, {**plain, **given}, where="set")
    batch = make_batch(
        lambda _: make_environment("FrozenLake-v1", ["flatten"]),
        NUM_ENVS,
        lambda env, episode: 1_000_000 * options.seed + 10_000 * env + episode,
    )
    algorithm = algorithm_for(config, batch.spec)
    loops = EnvironmentLoops(algorithm, [batch], seed=options.seed)
    learner, replay = (
        Learner(algorithm, Replay(config, batch.spec), options.seed),
        Replay(config, batch.spec),
    )
    training, buffer = learner.init(), replay.init()
    steps, _ = loops.act(training.params, np.int32(0), options.env_steps // NUM_ENVS)
    loops.close()
    buffer = replay.add(buffer, steps)

    env: Any = gym.make("FrozenLake-v1").unwrapped
    live = [s for s, tile in enumerate(env.desc.reshape(-1)) if tile in b"SF"]
    true = exact(*table_of(env))[live]
    print(f"steps a table: {agreement(exact(*counted(steps, 16, 4))[live], true):.2f}")

    for number in range(500, options.learner_steps + 1, 500):
        training, metrics = learner.advance(training, buffer, 500)
        found = action_values(algorithm, training.average)[0][live]
        best = np.mean(found.argmax(axis=1) == true.argmax(axis=1))
        error = np.abs(found - true).mean()
        print(
            f"{number:,} learner steps: correlation {agreement(found, true):.2f}, best action in "
            f"{best:.0%} of states, error {error:.4f}, loss {metrics['loss']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
