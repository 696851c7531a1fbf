"""Letters for tokens, the example, and the balanced design."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import CountingConfig, task
from counting_interp.probes.designs import every_count, example, letter, letters, parse_sequence


def config(T: int, L: int) -> CountingConfig:
    return CountingConfig.parse("dot", T=T, L=L, d=2, p=2)


def test_letters_start_at_a_and_end_with_the_dollar():
    assert [letter(t, 80) for t in (0, 1, 25, 26, 51, 52, 79, 80)] == ["A", "B", "Z", "a", "z", "52", "79", "$"]


@pytest.mark.parametrize("text", ["BBCBBBDEEE", " BBCBBBDEEE\n", "1,1,2,1,1,1,3,4,4,4", "1 1 2 1, 1 1 3 4 4 4"])
def test_a_sequence_is_letters_or_numbers(text):
    tokens = parse_sequence(text, config(32, 10))
    assert tokens.tolist() == [1, 1, 2, 1, 1, 1, 3, 4, 4, 4]
    assert "".join(letters(tokens, 32)) == "BBCBBBDEEE"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BBC", "L=10 tokens, got 3"),
        ("", "L=10 tokens, got 0"),
        ("BBCBB BDEEE", r"letters \(BBCBBBDEEE\) or numbers"),
        ("BBCBBBDEE$", "letters"),
        ("BBCBBBDEE\x1b", r"got 'BBCBBBDEE\\x1b'"),
        ("1,1,x", "letters"),
        ("-1,1,1,1,1,1,1,1,1,1", "letters"),
        ("9" * 5000, "letters"),
        ("٣" * 10, "letters"),
        ("bbcbbbdeee", r"tokens 0\.\.9 \(A\.\.J\), got e = 30"),
        ("1,1,1,1,1,1,1,1,1,99", r"tokens 0\.\.9 \(A\.\.J\), got 99"),
    ],
)
def test_what_is_wrong_with_a_sequence_is_said(text, message):
    with pytest.raises(ValueError, match=message):
        parse_sequence(text, config(10, 10))


def test_the_example_is_the_papers_or_has_its_shape():
    assert "".join(letters(example(config(32, 10)), 32)) == "BBCBBBDEEE"
    for T in range(2, 40):
        for L in range(2, T + 1):
            tokens = example(config(T, L))
            assert tokens.shape == (L,)
            assert 0 <= int(tokens.min()) <= int(tokens.max()) < T
            assert len(tokens.unique()) > 1
    assert task.histogram(example(config(11, 11))).tolist() == [6] * 6 + [3] * 3 + [1, 1]


@pytest.mark.parametrize(("T", "L"), [(2, 2), (3, 3), (5, 3), (32, 10)])
def test_every_token_occurs_every_number_of_times(T, L):
    tokens, where = every_count(config(T, L), repeats=3, seed=0)
    assert tokens.shape == (T, L, 3, L)
    counted = torch.arange(T)[:, None, None]
    assert ((tokens == counted[..., None]).sum(-1) == torch.arange(1, L + 1)[:, None]).all()
    assert (tokens.gather(-1, where[..., None])[..., 0] == counted).all()
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < T


def test_the_other_places_follow_the_papers_law():
    """Given that t occurs k times, the count seen at another position is uniform on 1..L-k."""
    tokens, _ = every_count(config(12, 6), repeats=400, seed=1)
    others = task.histogram(tokens[:, 1].flatten(0, 1))[(tokens[:, 1] != torch.arange(12)[:, None, None]).flatten(0, 1)]
    shares = torch.bincount(others, minlength=7)[1:5] / len(others)
    assert (shares - 0.25).abs().max() < 0.015


def test_the_place_looked_at_is_uniform_and_the_seed_fixes_all():
    tokens, where = every_count(config(12, 6), repeats=200, seed=2)
    assert (torch.bincount(where.flatten(), minlength=6) / where.numel() - 1 / 6).abs().max() < 0.02
    again, _ = every_count(config(12, 6), repeats=200, seed=2)
    assert torch.equal(tokens, again)
