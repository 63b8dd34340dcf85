"""Trains Gumbel MuZero on CartPole from Python, and plays one episode with the best checkpoint.

python examples/cartpole.py            # 20,000 learner steps: most of an hour on one core
python examples/cartpole.py 500        # a taste
"""

import sys

import gymnasium as gym

from mujax_pipe import CheckpointingConfig, ExperimentConfig, GMZConfig, load_policy, run_experiment


def make_env(num_envs: int) -> gym.vector.VectorEnv:
    """Makes CartPole-v1 that often; an episode that ends starts anew within the same step."""
    autoreset = gym.vector.AutoresetMode.SAME_STEP
    return gym.make_vec(
        "CartPole-v1",
        num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": autoreset},
    )


def main(num_steps: int = 20_000) -> None:
    experiment = ExperimentConfig(
        config=GMZConfig(batch_size=256).with_num_steps(num_steps),
        environment_factory=lambda seed: make_env(16),
        eval_environment_factory=lambda seed: make_env(1),
        max_num_learner_steps=num_steps,
        checkpointing=CheckpointingConfig(directory="checkpoints/cartpole"),
    )
    run_experiment(experiment)

    policy = load_policy("checkpoints/cartpole")
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    episode_return, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
        episode_return += float(reward)
        ended = terminated or truncated
    print(f"one episode with the best checkpoint: {episode_return:g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
