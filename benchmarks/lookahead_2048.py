"""What misleads a search in 2048: games by a trained model, by parts of it, and by plain rules.

    python benchmarks/lookahead_2048.py --of results/cells/gmz/game2048/seed-0/best

Plays the same games in several ways. Two need no model: always the first legal move, which is what
an untrained network does, and the move with the largest reward. Of a trained Gumbel MuZero: its
search, its policy alone, what its model says of each move (reward plus discounted value of the next
state), and the same with the true reward and the value of the true board after the move, where only
the new tile is missing. What the last has and the one before lacks, the model has not learned.
Prints the mean score of each, and how well the model orders the moves of a state by their reward.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from mujax_pipe import runtime

ENVIRONMENT = "gymnasium_2048:gymnasium_2048/TwentyFortyEight-v0"
FIRST_GAME = 70_000  # seeds that nothing else here uses


class Moves:
    """What the four moves of each board would give: numbers [B, 4]."""

    def __init__(self, envs: list[Any], boards: list[np.ndarray]):
        tried = [
            [env.unwrapped.apply_action(board, move) for move in range(4)]
            for env, board in zip(envs, boards, strict=True)
        ]
        self.reward = np.array([[reward for _, reward, _ in row] for row in tried], float)
        self.legal = np.array([[legal for _, _, legal in row] for row in tried])
        after = np.array([[np.asarray(board) for board, _, _ in row] for row in tried], int)
        # As `flatten` gives an observation: one-hot of each cell's exponent.
        self.after = np.eye(16, dtype=np.float32)[after].reshape(*after.shape[:2], -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", required=True, metavar="RUN", help="a trained Gumbel MuZero")
    parser.add_argument("--games", type=int, default=100)
    options = parser.parse_args()
    runtime.prepare(1)
    import jax
    import jax.numpy as jnp

    from mujax_pipe import load_policy
    from mujax_pipe.training.envs import make_environment

    trained = load_policy(options.of)
    algorithm, params = trained.algorithm, trained.params
    discount = algorithm.config.discount
    envs: list[Any] = [
        make_environment(ENVIRONMENT, ["mask_2048", "flatten"]) for _ in range(options.games)
    ]

    @jax.jit
    def ahead(observation: Any) -> tuple[Any, Any]:
        embedding = algorithm.root(params, observation).embedding
        moves = [jnp.full(len(observation), move) for move in range(4)]
        found = [algorithm._recurrent(params, None, move, embedding)[0] for move in moves]
        stacked = [jnp.stack([getattr(x, name) for x in found], 1) for name in ("reward", "value")]
        return stacked[0], stacked[1]

    @jax.jit
    def searched(observation: Any, illegal: Any) -> Any:
        key, step = jax.random.key(0), jnp.int32(0)
        return algorithm.search(params, key, observation, illegal, step, explore=False).action

    @jax.jit
    def values(observation: Any) -> Any:
        flat = observation.reshape(-1, observation.shape[-1])
        return algorithm.root(params, flat).value.reshape(observation.shape[:-1])

    policy = jax.jit(lambda seen, illegal: algorithm.policy_and_value(params, seen, illegal)[0])
    agreements: list[float] = []

    def by_model(seen: np.ndarray, moves: Moves) -> np.ndarray:
        reward, value = (np.asarray(x) for x in ahead(seen))
        for guess, true, legal in zip(reward, moves.reward, moves.legal, strict=True):
            if true[legal].std() if legal.any() else 0.0:
                agreements.append(np.corrcoef(guess[legal], true[legal])[0, 1])
        return reward + discount * value

    ways: dict[str, Callable[[np.ndarray, Moves], Any]] = {
        "always the first legal move": lambda seen, moves: moves.legal,
        "the largest reward": lambda seen, moves: moves.reward,
        "search": lambda seen, moves: np.eye(4)[searched(seen, ~moves.legal)],
        "the policy alone": lambda seen, moves: policy(seen, ~moves.legal),
        "the model one move ahead": by_model,
        "the same, true rewards and boards": lambda seen, moves: (
            moves.reward + discount * np.asarray(values(moves.after))
        ),
    }
    print(f"| {options.games} games | score | standard error |\n|:--|--:|--:|")
    for name, preference in ways.items():
        scores = play(envs, preference)
        error = scores.std(ddof=1) / len(scores) ** 0.5
        print(f"| {name} | {scores.mean():,.0f} | {error:,.0f} |", flush=True)
    print(f"rewards of a state's moves, model and true: correlation {np.mean(agreements):.2f}")


def play(envs: list[Any], preference: Callable[[np.ndarray, Moves], Any]) -> np.ndarray:
    """Returns the score of one game in each environment, always by the move preferred most."""
    started = [env.reset(seed=FIRST_GAME + number) for number, env in enumerate(envs)]
    seen = np.array([observation for observation, _ in started], np.float32)
    boards = [info["board"] for _, info in started]
    scores, over = np.zeros(len(envs)), np.zeros(len(envs), bool)
    while not over.all():
        moves = Moves(envs, boards)
        liking = np.where(moves.legal, np.asarray(preference(seen, moves), float), -np.inf)
        for number in np.flatnonzero(~over):
            step = envs[number].step(int(liking[number].argmax()))
            seen[number], reward, terminated, truncated, info = step
            boards[number], over[number] = info["board"], terminated or truncated
            scores[number] += reward
    return scores


if __name__ == "__main__":
    main()
