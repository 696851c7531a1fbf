"""Random numbers inside a kernel: splitmix64, whose whole state is one counter.

The state of a stream is an array of one uint64, so that a kernel can advance it. The stream of an epoch is a pure
function of (seed, epoch): a run resumes at any epoch without having stored anything.
"""

from __future__ import annotations

import numpy as np

from counting_interp.models.training.kernels.compiling import inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
LOW = np.uint64(0xFFFFFFFF)


@inlined
def next_uint64(state):
    """The next 64 random bits."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@inlined
def below(state, n):
    """An integer drawn uniformly from 0..n-1, exactly (Lemire's multiplication with rejection)."""
    size = np.uint64(n)
    product = (next_uint64(state) >> np.uint64(32)) * size
    if (product & LOW) < size:
        threshold = (np.uint64(1 << 32) - size) % size
        while (product & LOW) < threshold:
            product = (next_uint64(state) >> np.uint64(32)) * size
    return np.int64(product >> np.uint64(32))


@inlined
def open_stream(state, seed, epoch):
    """Set `state` to the beginning of the stream that belongs to (seed, epoch)."""
    state[0] = np.uint64(seed)
    state[0] = next_uint64(state) ^ (np.uint64(epoch) * MIX_2)
    state[0] = next_uint64(state)
