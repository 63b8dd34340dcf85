"""Effects at the rim, one schedule: environments, replay, actor, learner, evaluation, files."""
