"""Random numbers inside kernels: a known stream, exact ranges, streams that differ by seed and epoch."""

from __future__ import annotations

import numpy as np
import pytest

from counting_interp.models.training.kernels.sampling import below, next_uint64, open_stream


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
    found = np.bincount([below(state, n) for _ in range(draws)], minlength=n)
    assert len(found) == n
    assert np.abs(found - draws / n).max() < 5 * (draws / n) ** 0.5


def test_streams_differ_by_seed_and_epoch_and_repeat():
    def first(seed: int, epoch: int) -> int:
        state = state_of(0)
        open_stream(state, seed, epoch)
        return int(next_uint64(state))

    pairs = [(seed, epoch) for seed in (0, 1, 2, 2**63 - 1) for epoch in range(50)]
    assert len({first(*pair) for pair in pairs}) == len(pairs)
    assert first(7, 3) == first(7, 3)
