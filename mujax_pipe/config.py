"""Every setting of a run, with its default, range and help text. No JAX here.

The command line, `params.yaml` and the Python API all derive from these dataclasses, so a default
stands in one place. Defaults follow the papers where a paper gives one:
  [M] Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning ..."
  [G] Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
  [S] Antonoglou et al. 2022, "Planning in stochastic environments with a learned model"
  [E] Ye et al. 2021, "Mastering Atari games with limited data"
  [D] Hafner et al. 2023, "Mastering diverse domains through world models"
  [H] Farebrother et al. 2024, "Stop regressing: training value functions via classification"
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

from mujax_pipe.errors import UserError, quoted
from mujax_pipe.settings import setting, setting_fields, validate

# Size presets: width and number of the layers from state to state. Embeddings and heads are half as
# wide, heads one layer shallower: half the arithmetic of a search (docs/performance.md).
_SIZES = {"XS": (64, 1), "S": (128, 2), "M": (256, 2), "L": (512, 3), "XL": (1024, 3)}
SIZES = tuple(_SIZES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MuZeroConfig:
    """What Gumbel MuZero and Stochastic MuZero share."""

    # Network
    embedding_dim: int = setting(
        64, "Width of the state embedding.", low=1, high=65536, panel="Network"
    )
    representation_layer_sizes: tuple[int, ...] = setting(
        (128, 128), "Hidden layers of the representation network.", low=1, panel="Network"
    )
    dynamics_layer_sizes: tuple[int, ...] = setting(
        (128, 128), "Hidden layers of the dynamics network.", low=1, panel="Network"
    )
    reward_layer_sizes: tuple[int, ...] = setting(
        (64,), "Hidden layers of the reward head.", low=1, panel="Network"
    )
    value_layer_sizes: tuple[int, ...] = setting(
        (64,), "Hidden layers of the value head.", low=1, panel="Network"
    )
    policy_layer_sizes: tuple[int, ...] = setting(
        (64,), "Hidden layers of the policy head.", low=1, panel="Network"
    )
    num_bins: int = setting(
        301, "Bins of the value and reward distributions [H].", low=3, high=4096, panel="Network"
    )
    bin_limit: float = setting(
        8.0,
        "Outermost bin, in symlog space: returns up to exp(bin_limit) - 1 can be told apart [D].",
        low=0.1,
        high=30.0,
        panel="Network",
    )
    unimix: float = setting(
        0.01, "Share of a uniform policy in the prior [D].", low=0.0, high=1.0, panel="Network"
    )

    # Search
    num_simulations: int = setting(
        16, "Simulations of each search.", low=1, high=4096, panel="Search"
    )

    min_value_range: float = setting(
        0.01,
        "Smallest range that a search stretches to 0..1 when it compares actions: what differs by "
        "less is noise [E].",
        low=1e-8,
        panel="Search",
    )
    exploration: tuple[float, ...] = setting(
        (0.0,),
        "Share of actions drawn uniformly while acting, in even parts of the run.",
        low=0.0,
        high=1.0,
        panel="Search",
    )
    exploration_repeat: int = setting(
        1,
        "Longest stretch of steps that a drawn action is held for; each power of 2 up to it is as "
        "likely.",
        low=1,
        high=1024,
        panel="Search",
    )

    # Targets
    discount: float = setting(
        0.99, "Discount per environment step [M].", low=0.0, high=1.0, panel="Targets"
    )
    unroll_steps: int = setting(
        5, "Steps (K) the model is unrolled and trained on [M].", low=1, high=64, panel="Targets"
    )
    bootstrap_steps: int = setting(
        5,
        "Rewards (n) summed before a value target bootstraps [M].",
        low=1,
        high=1024,
        panel="Targets",
    )
    td_lambda: float = setting(
        1.0, "Lambda of value targets; 1: n-step returns.", low=0.0, high=1.0, panel="Targets"
    )
    off_policy: str = setting(
        "vtrace",
        "How old data counts in value targets: less where the policy has changed, or in full.",
        choices=("vtrace", "ignore"),
        panel="Targets",
    )
    after_terminal: str = setting(
        "absorbing",
        "What the model learns past a terminal state: zero value and reward, or nothing.",
        choices=("absorbing", "masked"),
        panel="Targets",
    )
    reanalyze_ratio: float = setting(
        0.5,
        "Share of each batch that is searched again with the newest parameters [M].",
        low=0.0,
        high=1.0,
        panel="Targets",
    )

    # Loss
    value_weight: float = setting(1.0, "Weight of the value loss.", low=0.0, panel="Loss")
    reward_weight: float = setting(1.0, "Weight of the reward loss.", low=0.0, panel="Loss")
    policy_weight: float = setting(1.0, "Weight of the policy loss.", low=0.0, panel="Loss")
    consistency_weight: float = setting(
        2.0,
        "Weight that pulls unrolled embeddings to those of the observations reached [E].",
        low=0.0,
        panel="Loss",
    )

    # Optimisation
    num_learner_steps: int = setting(
        20_000, "Learner steps over which the learning rate decays.", low=1, panel="Optimisation"
    )
    batch_size: int = setting(
        256, "Windows in each batch (N).", low=1, high=1_048_576, panel="Optimisation"
    )
    learning_rate: float = setting(
        0.001, "Peak learning rate of AdamW.", low=0.0, high=1.0, panel="Optimisation"
    )
    warmup_steps: int = setting(
        50, "Learner steps until the peak learning rate.", low=0, panel="Optimisation"
    )
    final_learning_rate: float = setting(
        0.1,
        "Share of the peak learning rate left at the last step of a cosine decay.",
        low=0.0,
        high=1.0,
        panel="Optimisation",
    )
    weight_decay: float = setting(
        0.0001, "Decoupled weight decay [M].", low=0.0, high=1.0, panel="Optimisation"
    )
    averaging: float = setting(
        0.999,
        "Weight of the past in the averaged parameters that act and are scored (0: the newest); "
        "less while the run is young.",
        low=0.0,
        high=0.9999,
        panel="Optimisation",
    )
    max_grad_norm: float = setting(
        5.0, "Largest global norm of a gradient.", low=1e-6, panel="Optimisation"
    )

    # Acting and replay
    num_envs: int = setting(
        16, "Environments that act side by side (B).", low=1, high=65536, panel="Acting and replay"
    )
    num_actors: int = setting(
        1, "Threads that act, each in its share of num_envs.", low=1, panel="Acting and replay"
    )
    chunk_steps: int = setting(
        8,
        "Steps each environment takes before the learner's turn.",
        low=1,
        high=4096,
        panel="Acting and replay",
    )
    replay_ratio: float = setting(
        2.0,
        "Windows sampled per transition inserted.",
        low=1e-6,
        high=4096.0,
        panel="Acting and replay",
    )
    min_replay_size: int = setting(
        1000, "Transitions before the first learner step.", low=1, panel="Acting and replay"
    )
    max_replay_size: int = setting(100_000, "Transitions kept.", low=1, panel="Acting and replay")

    # Devices
    actor_device: str = setting(
        "auto",
        "Device of acting and evaluation: auto (the CPU), cpu, gpu or, say, gpu:1.",
        panel="Devices",
    )
    learner_device: str = setting(
        "auto",
        "Device of learning: auto (a GPU where there is one), cpu, gpu or, say, gpu:1.",
        panel="Devices",
    )

    def __post_init__(self) -> None:
        validate(self)
        window = self.window_length
        if self.max_replay_size < self.num_envs * window:
            raise UserError(
                f"max_replay_size is {self.max_replay_size}, too small for {self.num_envs} "
                f"environments of one window (unroll_steps + bootstrap_steps + 1 = {window} "
                f"transitions) each: allowed are {self.num_envs * window} and more"
            )
        if self.num_envs % self.num_actors:
            raise UserError(
                f"num_actors is {self.num_actors}, which does not divide num_envs "
                f"({self.num_envs}): each actor takes the same share"
            )
        if self.chunk_steps > self.max_replay_size // self.num_envs:
            raise UserError(
                f"chunk_steps is {self.chunk_steps}, more than replay keeps of an environment: "
                f"allowed are at most {self.max_replay_size // self.num_envs} (max_replay_size / "
                "num_envs)"
            )
        if self.min_replay_size > self.max_replay_size:
            raise UserError(
                f"min_replay_size is {self.min_replay_size}, more than max_replay_size "
                f"({self.max_replay_size}): the learner would never start; lower it"
            )

    @property
    def window_length(self) -> int:
        """Transitions in a sampled window: K + n + 1."""
        return self.unroll_steps + self.bootstrap_steps + 1

    @property
    def first_learn_size(self) -> int:
        """Transitions that must be in replay before the first learner step."""
        return max(self.min_replay_size, self.num_envs * self.window_length)

    def with_size(self, size: str) -> Self:
        """Returns this config with every layer size and `embedding_dim` of a preset (XS..XL)."""
        if size not in _SIZES:
            raise UserError(f"size is {size!r}: allowed are {quoted(SIZES)}")
        width, depth = _SIZES[size]
        sizes: dict[str, Any] = {"embedding_dim": width // 2}
        for name in setting_fields(type(self)):
            if name in _TRUNKS:
                sizes[name] = (width,) * depth
            elif name.endswith("_layer_sizes"):
                sizes[name] = (width // 2,) * max(1, depth - 1)
        return dataclasses.replace(self, **sizes)

    def with_num_steps(self, num_learner_steps: int) -> Self:
        """Returns this config with its learning rate spread over `num_learner_steps`."""
        return dataclasses.replace(self, num_learner_steps=num_learner_steps)

    def learner_steps_owed(self, transitions: int) -> int:
        """Learner steps that the schedule owes after `transitions` have been inserted in all."""
        learnable = max(0, transitions - self.first_learn_size)
        return math.floor(learnable * self.replay_ratio / self.batch_size)

    def learner_steps_within(self, env_steps: int) -> int:
        """Learner steps of a run that takes at most `env_steps`, in whole chunks."""
        chunk = self.num_envs * self.chunk_steps
        return self.learner_steps_owed(env_steps // chunk * chunk)

    def env_steps_for(self, learner_steps: int) -> int:
        """Fewest environment steps after which `learner_steps` are owed (inverse of the above)."""
        steps = self.first_learn_size + math.ceil(
            learner_steps * self.batch_size / self.replay_ratio
        )
        return steps if self.learner_steps_owed(steps) >= learner_steps else steps + 1


# Networks that carry a state to a state; the others are heads.
_TRUNKS = ("representation_layer_sizes", "dynamics_layer_sizes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GMZConfig(MuZeroConfig):
    """Gumbel MuZero: sequential halving at the root, policy targets from completed Q values [G]."""

    max_num_considered_actions: int = setting(
        16, "Actions that sequential halving starts from [G].", low=1, panel="Search"
    )
    value_scale: float = setting(
        0.1, "Scale (c_scale) of Q values in the improved policy [G].", low=0.0, panel="Search"
    )
    maxvisit_init: float = setting(
        50.0, "Offset (c_visit) of visits in the improved policy [G].", low=0.0, panel="Search"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SMZConfig(MuZeroConfig):
    """Stochastic MuZero: afterstates and chance nodes, policy targets from visit counts [S]."""

    num_codes: int = setting(32, "Chance codes (C) [S].", low=1, high=4096, panel="Network")
    encoder_layer_sizes: tuple[int, ...] = setting(
        (64,), "Hidden layers of the chance encoder.", low=1, panel="Network"
    )
    chance_layer_sizes: tuple[int, ...] = setting(
        (64,), "Hidden layers of the chance prior.", low=1, panel="Network"
    )
    dirichlet_alpha: float = setting(
        0.3, "Concentration of the root noise [M].", low=1e-3, high=1000.0, panel="Search"
    )
    dirichlet_fraction: float = setting(
        0.25,
        "Share of noise in the root prior while acting [M].",
        low=0.0,
        high=1.0,
        panel="Search",
    )
    pb_c_init: float = setting(
        1.25, "Exploration constant c1 of PUCT [M].", low=0.0, panel="Search"
    )
    pb_c_base: float = setting(
        19652.0, "Exploration constant c2 of PUCT [M].", low=1.0, panel="Search"
    )
    temperatures: tuple[float, ...] = setting(
        (1.0, 0.5, 0.25),
        "Acting temperatures of even parts of the run [M].",
        low=0.0,
        high=10.0,
        panel="Search",
    )
    afterstate_value_weight: float = setting(
        1.0, "Weight of the afterstate value loss.", low=0.0, panel="Loss"
    )
    chance_weight: float = setting(
        1.0, "Weight of the chance prior loss [S].", low=0.0, panel="Loss"
    )
    commitment_weight: float = setting(
        1.0, "Weight that pulls encodings to their codes [S].", low=0.0, panel="Loss"
    )


# The registry of settings; `agents.ALGORITHMS` holds the mathematics under the same names.
CONFIGS: dict[str, type[MuZeroConfig]] = {"gmz": GMZConfig, "smz": SMZConfig}
