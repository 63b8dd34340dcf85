"""Whether it learns: tasks whose best policy is known."""

import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from tests.fakes import Corridor


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_corridor_is_walked_to_its_far_end(tmp_path, seed):
    """The near end pays 0.1 at once, the far one 1 after three steps: return 1 is the optimum."""
    config = GMZConfig(
        num_simulations=8,
        unroll_steps=3,
        bootstrap_steps=5,
        batch_size=32,
        num_envs=4,
        replay_ratio=4.0,
        min_replay_size=200,
        max_replay_size=10_000,
        num_learner_steps=300,
        learning_rate=0.003,
        discount=0.95,
    ).with_size("XS")
    result = run_experiment(
        ExperimentConfig(
            config=config,
            environment_factory=lambda index: Corridor(),
            seed=seed,
            evaluation=EvaluationConfig(every=100, num_episodes=2),
            checkpointing=CheckpointingConfig(directory=str(tmp_path)),
        )
    )
    scores = [score for _, _, score in result.curve]
    assert scores[0] < Corridor.OPTIMUM
    assert scores[-1] == Corridor.OPTIMUM
