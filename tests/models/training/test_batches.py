"""Random numbers and samplers of the kernels: exact where draws can be enumerated, else by their distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch

from counting_interp.models import CountingConfig, task
from counting_interp.models.training.engine import SAMPLER_CODES, empty_multisets, multisets_of
from counting_interp.models.training.kernels import batches
from counting_interp.models.training.kernels.batches import below, next_uint64, open_stream
from tests.helpers import assert_close


def outcomes(draw: Callable[[Callable], object]) -> Iterator[tuple[Fraction, object]]:
    """All results of `draw(below)` with their exact probabilities: every choice below(n) is taken in every way."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        chosen = pending.pop()
        taken: list[tuple[int, int]] = []

        def below(_state, n, chosen=chosen, taken=taken) -> int:
            choice = chosen[len(taken)] if len(taken) < len(chosen) else 0
            taken.append((choice, n))
            return choice

        result = draw(below)
        for depth in range(len(chosen), len(taken)):
            prefix = tuple(choice for choice, _ in taken[:depth])
            pending += [(*prefix, other) for other in range(1, taken[depth][1])]
        probability = Fraction(1)
        for _, n in taken:
            probability /= n
        yield probability, result


def cycle_types(L: int) -> dict[tuple[int, ...], Fraction]:
    """How often each multiset of cycle lengths occurs among all permutations of L positions."""
    types: Counter[tuple[int, ...]] = Counter()
    for permutation in permutations(range(L)):
        seen: set[int] = set()
        lengths = []
        for start in range(L):
            length = 0
            while start not in seen:
                seen.add(start)
                start = permutation[start]
                length += 1
            if length:
                lengths.append(length)
        types[tuple(sorted(lengths))] += 1
    return {lengths: Fraction(n, sum(types.values())) for lengths, n in types.items()}


@pytest.mark.parametrize("L", [2, 3, 4, 6])
@pytest.mark.parametrize("sampler", ["paper", "published"])
def test_blocks_are_exactly_the_cycles_of_a_random_permutation(sampler, L, monkeypatch):
    def draw(below) -> tuple[int, ...]:
        monkeypatch.setattr(batches, "below", below)
        monkeypatch.setattr(batches, "unused_token", lambda state, T, used, tokens: used)
        tokens, counts = np.zeros(L + 1, np.int32), np.zeros(L + 1, np.int32)
        used = batches.draw_blocks.py_func(None, SAMPLER_CODES[sampler], 99, L, tokens, counts)
        return tuple(sorted(counts[:used].tolist()))

    shares: Counter = Counter()
    for probability, lengths in outcomes(draw):
        shares[lengths] += probability
    if sampler == "paper":
        assert shares == cycle_types(L)
    else:
        assert shares == {tuple(sorted((1, *lengths))): share for lengths, share in cycle_types(L - 1).items()}


def test_positions_are_exactly_shuffled(monkeypatch):
    counts = np.array([2, 1, 1], np.int32)

    def draw(below) -> tuple[int, ...]:
        monkeypatch.setattr(batches, "below", below)
        slots = np.zeros(4, np.int32)
        batches.shuffle_blocks.py_func(None, 3, counts, slots)
        return tuple(slots.tolist())

    shares: Counter = Counter()
    for probability, slots in outcomes(draw):
        shares[slots] += probability
    assert set(shares) == set(permutations((0, 0, 1, 2)))
    assert set(shares.values()) == {Fraction(1, 12)}


def drawn(variant: str, sampler: str, n: int, *, T: int, L: int, seed: int = 0) -> batches.Multisets:
    config = CountingConfig.parse(variant, T=T, L=L, d=1, p=1)
    data = empty_multisets(config, n)
    shuffle = config.mixing == "lin"
    batches.draw(np.zeros(1, np.uint64), seed, 0, SAMPLER_CODES[sampler], T, config.has_bos, shuffle, data)
    return data


@pytest.mark.parametrize("sampler", task.SAMPLERS)
@pytest.mark.parametrize(("T", "L"), [(5, 4), (32, 10), (32, 30)])
def test_labels_have_their_known_distribution(sampler, T, L):
    n = 40_000
    data = drawn("dot", sampler, n, T=T, L=L)
    assert (data.counts * (np.arange(L + 1) < data.keys[:, None])).sum() == n * L
    positions = np.zeros((n, L))  # of each sequence, how many positions have count 1..L
    for key in range(L):
        here = data.keys > key
        positions[here, data.counts[here, key] - 1] += data.counts[here, key]
    shares = positions / L
    error = np.abs(shares.mean(0) - task.label_distribution(sampler, T=T, L=L).numpy())
    assert (error <= 5 * shares.std(0) / n**0.5 + 1e-4).all()


@pytest.mark.parametrize("sampler", task.SAMPLERS)
def test_tokens_are_distinct_uniform_and_in_range(sampler):
    data = drawn("bos+sftm", sampler, 20_000, T=6, L=5)
    occurrences = np.zeros(6)
    for tokens, counts, keys in zip(data.tokens, data.counts, data.keys, strict=True):
        assert tokens[keys - 1] == 6
        assert counts[keys - 1] == 1
        assert len(set(tokens[: keys - 1])) == keys - 1
        occurrences[tokens[: keys - 1]] += counts[: keys - 1]
    assert_close(torch.from_numpy(occurrences / occurrences.sum()), torch.full((6,), 1 / 6), 0.01)


@pytest.mark.parametrize("sampler", task.SAMPLERS)
def test_positions_agree_with_counts(sampler):
    data = drawn("lin", sampler, 1000, T=8, L=6)
    tokens = torch.from_numpy(np.take_along_axis(data.tokens, data.slots, 1))
    counts = torch.from_numpy(np.take_along_axis(data.counts, data.slots, 1))
    assert torch.equal(task.histogram(tokens), counts.long())


def test_given_sequences_become_the_multisets_they_are():
    config = CountingConfig.parse("bos", T=5, L=4, d=1, p=1)
    data = multisets_of(config, torch.tensor([[3, 0, 3, 3], [4, 2, 1, 0]]))
    assert data.keys.tolist() == [3, 5]
    assert data.tokens[0, :3].tolist() == [3, 0, 5]
    assert data.counts[0, :3].tolist() == [3, 1, 1]
    assert data.tokens[1].tolist() == [4, 2, 1, 0, 5]
    assert data.slots.tolist() == [[0, 1, 0, 0], [0, 1, 2, 3]]


def state_of(value: int) -> np.ndarray:
    return np.array([value], np.uint64)


def test_known_stream_of_splitmix64():
    state = state_of(1234567)
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [int(next_uint64(state)) for _ in expected] == expected


@pytest.mark.parametrize("n", [1, 2, 3, 10, 33])
def test_below_is_uniform(n):
    state, draws = state_of(n), 20_000
    drawn_counts = np.bincount([below(state, n) for _ in range(draws)], minlength=n)
    assert len(drawn_counts) == n
    assert np.abs(drawn_counts - draws / n).max() < 5 * (draws / n) ** 0.5


def test_streams_differ_by_seed_and_epoch_and_repeat():
    def first(seed: int, epoch: int) -> int:
        state = state_of(0)
        open_stream(state, seed, epoch)
        return int(next_uint64(state))

    pairs = [(seed, epoch) for seed in (0, 1, 2, 2**63 - 1) for epoch in range(50)]
    assert len({first(*pair) for pair in pairs}) == len(pairs)
    assert first(7, 3) == first(7, 3)
