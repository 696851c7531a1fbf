"""What each probe takes at its default settings, so that it can be refused before it begins: a valid file of 40 kB may
hold a model on which some of them run for days.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from counting_interp.models.sizes import Sizes


@dataclass(frozen=True)
class Work:
    """Sequences that are run through the model; beside that, multiplications done and numbers held."""

    sequences: int = 0
    multiplications: int = 0
    numbers: int = 0


Estimate = Callable[[Sizes], Work]
MAX_LEVELS = 9  # different counts of each token in an intervention; all of 1..L-1 up to the paper's L = 10
SVD = 20  # multiplications of a decomposition for each of a product of the same size
POINTS = 25_600  # mixtures of a sweep: 16 x 16 pairs of tokens, 100 steps


def little(config: Sizes) -> Work:
    """It chooses by itself how many sequences it can afford."""
    return Work()


def attention(config: Sizes) -> Work:
    """Statistics over all pairs of places, sorted, and each pair a row of the table."""
    return Work(multiplications=500_000 * config.n_positions**2, numbers=200 * config.n_positions**2)


def interventions(config: Sizes) -> Work:
    """64 pairs of tokens and up to 45 pairs of counts: two donors each, then unchanged, swapped and flattened."""
    levels = min(config.L - 1, MAX_LEVELS)
    sequences = 64 * levels * (levels + 1) // 2
    return Work(5 * sequences, numbers=8 * sequences * (config.L + config.T))


def transplants(config: Sizes) -> Work:
    """64 rows: six roles for each count, then four transplants for each move in every block."""
    counts, moves = min(config.L, 4 * MAX_LEVELS), 6 * min(config.L, MAX_LEVELS + 3)
    sequences = 64 * (6 * counts + (4 * moves if config.n_layers > 1 else 0) * config.n_layers)
    return Work(sequences, numbers=8 * 64 * 6 * counts * config.L + 8 * 64 * moves * config.d)


def every_count(config: Sizes) -> Work:
    """Four sequences for every token and count."""
    return Work(4 * config.T * config.L, numbers=16 * config.T * config.L**2)


def bos_share(config: Sizes) -> Work:
    """And 256 sequences with the share set to that of each count."""
    base = every_count(config)
    return Work(base.sequences + 256 * config.L, numbers=base.numbers + 512 * config.L**2)


def metric(config: Sizes) -> int:
    """Multiplications: the eigenvectors of a matrix of all pairs of hidden units, in double precision."""
    return 6 * config.p**3


def readout(config: Sizes) -> Work:
    """And predictions for every pair of counts of nine pairs of tokens each."""
    base, predictions = every_count(config), 9 * config.T * config.L**2
    return Work(
        base.sequences,
        predictions * config.p * config.classes + metric(config),
        base.numbers + 8 * base.sequences * config.p + 16 * config.p**2,
    )


def overlap(config: Sizes) -> Work:
    """Tables of all pairs of tokens, in double precision."""
    return Work(numbers=16 * (config.T + config.front) ** 2)


def spectrum(config: Sizes) -> Work:
    """Singular values of the weights, of the tokens' states and of the pre-activations."""
    T, d, p = config.T, config.d, config.p
    return Work(multiplications=SVD * (d * p * min(d, p) + T * d * min(T, d) + 512 * 10 * p * p))


def sweep(config: Sizes) -> Work:
    """Mixtures, and for each of them its logits and which of L boundaries it has passed."""
    return Work(POINTS // config.L + 1, numbers=16 * POINTS * config.L)


def count_sweep(config: Sizes) -> Work:
    """And the ends of the lines."""
    return Work(2 * 16**2 + POINTS // config.L, numbers=16 * POINTS * config.L)


def output_curves(config: Sizes) -> Work:
    return Work(config.T * config.L, numbers=4 * config.T * config.L * config.classes)


def step_function(config: Sizes) -> Work:
    """And a figure of L lines of two hundred points."""
    return Work(config.L, multiplications=10**8 * config.L)


def confusion(config: Sizes) -> Work:
    """The sequences are as many as it can afford; every pair of counts is a row of the table."""
    return Work(multiplications=500_000 * config.L**2, numbers=200 * config.L**2)
