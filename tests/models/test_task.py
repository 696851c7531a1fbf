"""The task: ground truth, and samplers whose label distribution is exactly what is claimed."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from math import comb, factorial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from counting_interp.models import task
from tests.helpers import assert_close


def test_histogram_of_the_paper_s_example() -> None:
    a, b, d = 0, 1, 3
    assert task.histogram(torch.tensor([a, b, d, d, b, b])).tolist() == [1, 3, 2, 2, 3, 3]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12))
def test_histogram_counts(tokens: list[int]) -> None:
    assert task.histogram(torch.tensor(tokens)).tolist() == [tokens.count(token) for token in tokens]


def stick_breaking(sampler: str, left: int) -> dict[tuple[int, ...], Fraction]:
    """The recipe, literally: probability of each multiset of block lengths, as exact fractions."""
    if left == 0:
        return {(): Fraction(1)}
    largest = left if sampler == "paper" or left == 1 else left - 1
    shares: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for length in range(1, largest + 1):
        for rest, probability in stick_breaking(sampler, left - length).items():
            shares[tuple(sorted((length, *rest)))] += probability / largest
    return dict(shares)


@pytest.mark.parametrize("L", [2, 3, 5, 8, 10])
@pytest.mark.parametrize("sampler", ["paper", "published"])
def test_label_distribution_follows_from_the_recipe_exactly(sampler: str, L: int) -> None:
    labels = [Fraction(0)] * L
    for lengths, probability in stick_breaking(sampler, L).items():
        for length in lengths:
            labels[length - 1] += probability * Fraction(length, L)
    assert_close(task.label_distribution(sampler, T=32, L=L), [float(x) for x in labels], 1e-12)


def test_uniform_label_distribution_is_binomial() -> None:
    exact = [comb(4, k - 1) * (1 / 6) ** (k - 1) * (5 / 6) ** (5 - k) for k in range(1, 6)]
    assert_close(task.label_distribution("uniform", T=6, L=5), exact, 1e-12)


def chi_square(observed: dict, expected: dict[tuple[int, ...], Fraction], n: int) -> float:
    assert set(observed) <= set(expected)
    return sum((observed.get(key, 0) - n * float(p)) ** 2 / (n * float(p)) for key, p in expected.items())


@pytest.mark.parametrize("sampler", ["paper", "published"])
def test_sampled_partitions_have_the_recipe_s_distribution(sampler: str) -> None:
    """Whole partitions, not only labels: 6 positions, chi-square below its mean plus six standard deviations."""
    n = 40_000
    tokens = task.sample(sampler, n, T=9, L=6, generator=3)
    observed = Counter(tuple(sorted(Counter(row).values())) for row in tokens.tolist())
    expected = stick_breaking(sampler, 6)
    degrees = len(expected) - 1
    assert chi_square(observed, expected, n) < degrees + 6 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("sampler", task.SAMPLERS)
def test_tokens_and_positions_are_uniform(sampler: str) -> None:
    n, T, L = 40_000, 7, 5
    tokens = task.sample(sampler, n, T=T, L=L, generator=5)
    assert tokens.shape == (n, L)
    for position in range(L):
        counts = torch.bincount(tokens[:, position], minlength=T).double()
        assert float(((counts - n / T) ** 2 / (n / T)).sum()) < (T - 1) + 6 * (2 * (T - 1)) ** 0.5


def test_shuffling_leaves_no_trace_of_the_blocks() -> None:
    """Equal neighbours are no more frequent than equal tokens at the two ends."""
    tokens = task.sample("paper", 40_000, T=9, L=6, generator=0)
    same = [(tokens[:, 0] == tokens[:, other]).double().mean() for other in range(1, 6)]
    assert max(same) - min(same) < 0.02


@pytest.mark.parametrize("sampler", task.SAMPLERS)
def test_randomness_is_private(sampler: str) -> None:
    before = torch.get_rng_state()
    first = task.sample(sampler, 50, T=9, L=4, generator=7)
    assert torch.equal(first, task.sample(sampler, 50, T=9, L=4, generator=torch.Generator().manual_seed(7)))
    assert not torch.equal(first, task.sample(sampler, 50, T=9, L=4, generator=8))
    assert torch.equal(before, torch.get_rng_state())


def test_the_published_sampler_always_has_a_single_token_and_never_the_full_count() -> None:
    counts = task.histogram(task.sample("published", 5_000, T=32, L=10, generator=0))
    assert (counts == 1).any(1).all()
    assert counts.max() == 9


def test_the_paper_s_sampler_gives_every_full_sequence_its_share() -> None:
    """All L positions hold one token with probability 1/L (the first block takes everything)."""
    counts = task.histogram(task.sample("paper", 20_000, T=32, L=10, generator=0))
    assert abs(float((counts[:, 0] == 10).double().mean()) - 0.1) < 6 * (0.09 / 20_000) ** 0.5


@pytest.mark.parametrize("n_tokens", [6])
def test_all_distinct_sequences_can_occur_when_length_equals_alphabet(n_tokens: int) -> None:
    tokens = task.sample("paper", 20_000, T=n_tokens, L=n_tokens, generator=0)
    distinct = tokens[(task.histogram(tokens) == 1).all(1)]
    share = 1 / factorial(n_tokens)  # a permutation without any longer cycle
    assert abs(len(distinct) / 20_000 - share) < 6 * (share / 20_000) ** 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("normal", 32, 10), "must be one of paper, published, uniform, got 'normal'"),
        (("paper", 4, 5), "got L=5, T=4"),
        (("paper", 4, 1), "got L=1, T=4"),
    ],
)
def test_bad_requests(arguments, message) -> None:
    sampler, T, L = arguments
    with pytest.raises(ValueError, match=message):
        task.sample(sampler, 3, T=T, L=L, generator=0)


def test_counts_equal_the_comparison_of_all_pairs_and_do_not_need_its_memory():
    tokens = torch.randint(5, (3, 4, 9), generator=torch.Generator().manual_seed(0))
    equal = tokens.unsqueeze(-1) == tokens.unsqueeze(-2)
    assert torch.equal(task.histogram(tokens), equal.sum(-1))
    assert torch.equal(task.running_count(tokens), equal.tril().sum(-1))
    long = torch.arange(4096).repeat(200, 1) // 2  # all pairs of positions would be three gigabytes
    assert bool((task.histogram(long) == 2).all())


def test_tokens_in_lines_of_text():
    assert task.in_words([16] * 10) == "Q x 10 (16)"
    assert task.in_words([1, 16, 16, 60]) == "B (1), Q x 2 (16), 60"
