import dataclasses

import pytest

from mujax_pipe.config import CONFIGS, GMZConfig, setting_fields
from mujax_pipe.errors import UserError
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.settings import from_mapping

# 16 windows of 16 steps: a replay of 256 transitions is the smallest.
SMALLEST = {"num_envs": 16, "unroll_steps": 5, "bootstrap_steps": 10, "min_replay_size": 1}


def refusal(**settings):
    with pytest.raises(UserError) as error:
        GMZConfig(**settings)
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("cls", [*CONFIGS.values(), EvaluationConfig])
def test_every_setting_is_documented_and_its_default_allowed(cls):
    config = cls()
    for name, field in setting_fields(cls).items():
        assert field.metadata["help"].endswith("."), name
        assert getattr(config, name) == field.default


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"discount": 1.5}, ("discount", "1.5", "at most 1")),
        ({"discount": -0.1}, ("discount", "-0.1", "at least 0")),
        ({"discount": float("nan")}, ("discount", "nan", "finite")),
        ({"discount": "0.9"}, ("discount", "'0.9'", "a number")),
        ({"value_weight": float("inf")}, ("value_weight", "inf", "finite")),
        ({"batch_size": 0}, ("batch_size", "0", "at least 1")),
        ({"batch_size": 8.0}, ("batch_size", "8.0", "a whole number")),
        ({"batch_size": True}, ("batch_size", "True", "a whole number")),
        ({"after_terminal": "nothing"}, ("after_terminal", "absorbing, masked")),
        ({"value_layer_sizes": ()}, ("value_layer_sizes", "list of whole numbers")),
        ({"value_layer_sizes": (8, 0)}, ("value_layer_sizes", "0", "at least 1")),
        ({"value_layer_sizes": (8, 8.5)}, ("value_layer_sizes", "8.5")),
        ({"value_layer_sizes": [8]}, ("value_layer_sizes", "[8]")),
        (
            {**SMALLEST, "max_replay_size": 255},
            ("max_replay_size", "255", "256 and more"),
        ),
        (
            {"num_envs": 1, "min_replay_size": 300, "max_replay_size": 299},
            ("min_replay_size", "300", "299"),
        ),
    ],
)
def test_a_bad_setting_is_refused_by_name_value_and_what_is_allowed(settings, words):
    message = refusal(**settings)
    for word in words:
        assert word in message


def test_replay_may_hold_exactly_one_window_an_environment():
    config = GMZConfig(**SMALLEST, max_replay_size=256)
    assert config.num_envs * config.window_length == 256


def test_a_chunk_that_replay_cannot_hold_is_refused():
    """256 transitions in 16 rows are 16 steps; a chunk of 17 would overwrite itself."""
    assert GMZConfig(**SMALLEST, max_replay_size=256, chunk_steps=16).chunk_steps == 16
    message = refusal(**SMALLEST, max_replay_size=256, chunk_steps=17)
    assert "chunk_steps" in message


def test_a_whole_number_is_taken_where_a_number_is_meant():
    config = GMZConfig(discount=1)
    assert type(config.discount) is float


def test_configs_are_equal_and_hash_by_value():
    assert GMZConfig(discount=1) == GMZConfig(discount=1.0)
    assert len({GMZConfig(), GMZConfig(), GMZConfig(batch_size=8)}) == 2


def test_a_size_sets_every_layer_and_nothing_else():
    small = GMZConfig(batch_size=8).with_size("XL")
    assert small.embedding_dim == 512
    assert small.dynamics_layer_sizes == small.representation_layer_sizes == (1024,) * 3
    assert small.value_layer_sizes == small.policy_layer_sizes == (512,) * 2
    assert small.reward_layer_sizes == (512,) * 2
    reset = {name: getattr(GMZConfig(), name) for name in setting_fields(GMZConfig)
             if name.endswith("_layer_sizes")}  # fmt: skip
    assert dataclasses.replace(small, embedding_dim=64, **reset) == GMZConfig(batch_size=8)


def test_the_smallest_size_keeps_one_layer_in_its_heads():
    assert GMZConfig().with_size("XS").value_layer_sizes == (32,)


def test_size_s_is_the_default():
    assert GMZConfig().with_size("S") == GMZConfig()


def test_an_unknown_size_is_refused():
    with pytest.raises(UserError, match=r"size is 'XXL': allowed are XS, S, M, L, XL"):
        GMZConfig().with_size("XXL")


# The learner steps that the schedule owes.


def owing(**settings):
    defaults = {"num_envs": 2, "unroll_steps": 2, "bootstrap_steps": 1, "max_replay_size": 100}
    return GMZConfig(**{"min_replay_size": 1, **defaults, **settings})


def test_learner_steps_owed_by_hand():
    config = owing(min_replay_size=10, batch_size=8, replay_ratio=2.0)
    assert [config.learner_steps_owed(n) for n in (0, 10, 13, 14, 17, 18, 50)] == [
        0, 0, 0, 1, 1, 2, 10,
    ]  # fmt: skip


def test_nothing_is_owed_before_every_row_holds_a_window():
    config = owing(batch_size=1, replay_ratio=1.0)
    assert config.first_learn_size == 8
    assert config.learner_steps_owed(8) == 0
    assert config.learner_steps_owed(9) == 1


@pytest.mark.parametrize("batch_size", [1, 7, 256])
@pytest.mark.parametrize("replay_ratio", [0.1, 1.0, 3.3, 512.0])
def test_env_steps_for_is_the_fewest_that_owe(replay_ratio, batch_size):
    config = owing(batch_size=batch_size, replay_ratio=replay_ratio)
    for learner_steps in range(1, 200):
        steps = config.env_steps_for(learner_steps)
        assert config.learner_steps_owed(steps) >= learner_steps
        assert config.learner_steps_owed(steps - 1) < learner_steps


def test_the_learning_rate_schedule_stretches():
    assert GMZConfig().with_num_steps(7) == GMZConfig(num_learner_steps=7)


# From parsed YAML.


def test_from_mapping_applies_size_first_then_the_other_keys():
    config = from_mapping(
        GMZConfig, {"value_layer_sizes": [3, 4], "size": "XS", "batch_size": 2}, where="here"
    )
    expected = dataclasses.replace(GMZConfig().with_size("XS"), value_layer_sizes=(3, 4))
    assert config == dataclasses.replace(expected, batch_size=2)


def test_from_mapping_builds_on_a_base():
    base = GMZConfig(batch_size=2, discount=0.25)
    assert from_mapping(GMZConfig, {"discount": 0.5}, where="here", base=base) == GMZConfig(
        batch_size=2, discount=0.5
    )
    assert base.discount == 0.25


def test_an_unknown_key_names_its_place_and_the_closest_one():
    with pytest.raises(UserError, match=r"^algorithms.gmz.batchsize: unknown key; did you mean "
                                        r"batch_size\?"):  # fmt: skip
        from_mapping(GMZConfig, {"batchsize": 2}, where="algorithms.gmz")


def test_a_bad_value_names_its_place():
    with pytest.raises(UserError, match=r"^algorithms.gmz.batch_size is 0"):
        from_mapping(GMZConfig, {"batch_size": 0}, where="algorithms.gmz")


def test_only_algorithms_have_a_size():
    with pytest.raises(UserError, match=r"size: unknown key"):
        from_mapping(EvaluationConfig, {"size": "S"}, where="here")
