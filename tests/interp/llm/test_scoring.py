"""Probabilities of counts, worked out by hand on small trees."""

import torch

from counting_interp.interp.llm.numbers import Node
from counting_interp.interp.llm.scoring import read_counts
from tests.helpers import assert_close

ZERO, ONE, WORD, SPACE, NOISE = range(5)
GOES_ON = torch.tensor([True, True, True, False, False])


def tree_of(sayings):
    root = Node()
    for path, count in sayings.items():
        node = root
        for token in path:
            node = node.children.setdefault(token, Node((*node.path, token)))
        node.count = count
    return root


def reader(table, calls=None):
    """A model whose next-token probabilities are `table[what was said]`, behind the prompt [9]."""

    def next_token(sequences):
        if calls is not None:
            calls.append([tuple(sequence[1:]) for sequence in sequences])
        return torch.tensor([table[tuple(sequence[1:])] for sequence in sequences], dtype=torch.float64)

    return next_token


def read(table, sayings, counts, calls=None):
    return read_counts(reader(table, calls), [[9]], [tree_of(sayings)], counts, GOES_ON)[0]


def test_all_ways_of_writing_are_added():
    """Digit 0.3, word 0.25: together they beat a single form with 0.35."""
    table = {(): [0.35, 0.30, 0.25, 0.0, 0.10]}
    assert_close(read(table, {(ZERO,): 0, (ONE,): 1, (WORD,): 1}, 2), [0.35, 0.55])


def test_ten_is_not_one():
    """P(1) = 0.8, and then 0 with 0.9: ten has 0.72, and one only what stops, 0.8 * 0.08."""
    table = {(): [0.1, 0.8, 0, 0, 0.1], (ONE,): [0.9, 0.02, 0.0, 0.05, 0.03]}
    shares = read(table, {(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10}, 11)
    assert_close(shares[1], 0.8 * 0.08)
    assert_close(shares[10], 0.72)


def test_one_is_one_where_it_stops():
    table = {(): [0.1, 0.8, 0, 0, 0.1], (ONE,): [0.1, 0.0, 0.1, 0.5, 0.3]}
    shares = read(table, {(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10}, 11)
    assert_close(shares[1], 0.8 * 0.8)
    assert_close(shares[10], 0.08)


def test_split_words_have_the_probability_of_the_whole_sequence():
    """The first token of a split word is likely, the word is not."""
    table = {(): [0.0, 0.2, 0.7, 0.0, 0.1], (WORD,): [0.1, 0.0, 0.0, 0.0, 0.9]}
    shares = read(table, {(WORD, ZERO): 0, (ONE,): 1}, 2)
    assert_close(shares, [0.07, 0.2])


def test_only_what_can_matter_is_opened():
    calls = []
    table = {(): [0.985, 0.005, 0.0, 0.0, 0.01]}
    read(table, {(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10}, 11, calls)
    assert calls == [[()]]


def test_a_close_race_is_opened_however_small_the_branch():
    """Branches below the tolerance still decide if the leaders are closer than they are."""
    calls = []
    table = {(): [0.500, 0.008, 0.495, 0.0, 0.0], (ONE,): [0.0, 0.0, 1.0, 0.0, 0.0]}
    shares = read(table, {(ZERO,): 0, (WORD,): 1, (ONE, WORD): 1}, 2, calls)
    assert calls == [[()], [(ONE,)]]
    assert_close(shares, [0.5, 0.503])


def test_prompts_of_a_batch_are_opened_independently():
    calls = []
    sure, unsure = [0.99, 0.0, 0.0, 0.0, 0.01], [0.0, 1.0, 0.0, 0.0, 0.0]

    def next_token(sequences):
        calls.append([list(sequence) for sequence in sequences])
        return torch.tensor([sure if sequence[0] == 8 or len(sequence) > 1 else unsure for sequence in sequences])

    tree = tree_of({(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10})
    first, second = read_counts(next_token, [[8], [9]], [tree, tree], 11, GOES_ON)
    assert calls == [[[8], [9]], [[9, ONE]]]
    assert_close(first[0], 0.99, 1e-6)
    assert_close(second[10], 0.99, 1e-6)
