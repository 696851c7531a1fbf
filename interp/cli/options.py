"""Options that several commands share, each defined once: its name, its bounds, its words.

Numbers on the command line have bounds as numbers in files have: what would take all memory, or days before anything is
seen, is refused at once. Those of T, L, d and p are the configuration's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

MAX_RUNS = 10_000
MAX_SEED = 2**63 - 1 - MAX_RUNS  # several runs have the seeds from the given one on
MAX_EPOCHS = 1_000_000
MAX_SNAPSHOTS = 10_000
MAX_SEARCH = 500_000  # T * T * L of a construction
MAX_PROCESSES = 256  # workers, or threads of one process


def _at_most(limit: int) -> Callable[[int | None], int | None]:
    """A bound that is no news to anybody, and need not stand in the help."""

    def check(value: int | None) -> int | None:
        if value is not None and value > limit:
            raise typer.BadParameter(f"{value} is larger than {limit}")
        return value

    return check


Alphabet = Annotated[int, typer.Option("-T", help="Tokens in the alphabet.")]
Length = Annotated[int, typer.Option("-L", help="Length of a sequence.")]
Dimension = Annotated[int | None, typer.Option("-d", help="Embedding dimension.")]
Units = Annotated[int | None, typer.Option("-p", help="Hidden units.")]
_SEED = typer.Option("--seed", min=0, callback=_at_most(MAX_SEED), help="Seed of everything that is sampled.")
Seed = Annotated[int, _SEED]
OptionalSeed = Annotated[int | None, _SEED]
Epochs = Annotated[int, typer.Option(max=MAX_EPOCHS, help="Epochs in all, each of fresh sequences.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there, whoever made it.")]
Threads = Annotated[
    int,
    typer.Option("--threads", min=1, max=MAX_PROCESSES, help="Threads of torch; small models are fastest with one."),
]
Workers = Annotated[
    int, typer.Option("--workers", min=1, max=MAX_PROCESSES, help="Processes on this machine, one thread each.")
]


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """For the shell's completion: those of `names` that begin as what was typed."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return offer


def check_searchable(T: int, L: int) -> None:
    """Refuse sizes at which constructions and their embeddings take more than about a minute and a gigabyte."""
    if T * T * L > MAX_SEARCH:
        raise typer.BadParameter(
            f"T={T}, L={L} would take very long: T * T * L may be up to {MAX_SEARCH:,} here; "
            "`models.constructions.construct` in Python takes any",
            param_hint="-T",
        )
