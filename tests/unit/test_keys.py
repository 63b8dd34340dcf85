import itertools

import jax
import numpy as np

from mujax_pipe.training.keys import Episodes, Purpose, episode_seed, key_for

# np.random.SeedSequence([family, *counters]), last two bits replaced by the family.
GOLDEN_TRAINING = [2968811708, 3317235284]
GOLDEN_FINAL = [2834126986, 307626446]


def test_each_purpose_and_seed_has_its_own_stream():
    words = {
        tuple(jax.random.key_data(key_for(seed, purpose)).tolist())
        for seed, purpose in itertools.product(range(5), Purpose)
    }
    assert len(words) == 5 * len(Purpose)


def test_a_key_depends_on_nothing_but_its_arguments():
    first, again = key_for(3, Purpose.ACT), key_for(3, Purpose.ACT)
    np.testing.assert_array_equal(jax.random.key_data(first), jax.random.key_data(again))


def test_families_of_episode_seeds_never_meet():
    """Whatever the counters, the last two bits tell the family."""
    training = {
        episode_seed(Episodes.TRAINING, *counters)
        for counters in itertools.product(range(4), range(8), range(50))
    }
    selection, final = (
        {episode_seed(family, number) for number in range(1600)}
        for family in (Episodes.SELECTION, Episodes.FINAL)
    )
    assert {seed & 3 for seed in training} == {0}
    assert {seed & 3 for seed in selection} == {1}
    assert {seed & 3 for seed in final} == {2}
    assert len(training) == len(selection) == len(final) == 1600


def test_episode_seeds_are_32_bit_and_spread():
    seeds = np.array([episode_seed(Episodes.FINAL, n) for n in range(2000)])
    assert seeds.min() >= 0
    assert seeds.max() < 2**32
    assert abs(seeds.mean() / 2**31 - 1.0) < 0.06


def test_every_counter_tells_episodes_apart():
    seeds = [episode_seed(Episodes.TRAINING, *c) for c in itertools.permutations((0, 1, 2))]
    assert len(set(seeds)) == 6


def test_episode_seeds_stay_what_they_are():
    """A change here would change every published number."""
    assert [episode_seed(Episodes.TRAINING, 0, 0, n) for n in range(2)] == GOLDEN_TRAINING
    assert [episode_seed(Episodes.FINAL, n) for n in range(2)] == GOLDEN_FINAL
