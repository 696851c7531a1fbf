"""What every command that reads checkpoints shares: its options, its files, and what happens when one is bad."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer

from interp.console import CHECKPOINT_REFUSED, complain, progress_bar
from models.errors import CheckpointError, printable

if TYPE_CHECKING:
    import torch

R = TypeVar("R")
ENDINGS = (".pt", ".pth", ".safetensors", ".ckpt")


class Mixing(str, Enum):
    lin = "lin"
    dot = "dot"
    bos = "bos"


Files = Annotated[list[Path], typer.Argument(metavar="FILE|DIR ...", help="Checkpoints, or folders of them.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of everything that is sampled.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps, ...")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of torch; small models are fastest with one.")]
AssumeMixing = Annotated[
    Mixing | None, typer.Option("--mixing", help="How a file without configuration mixes tokens, instead of trying.")
]
AssumeSoftmax = Annotated[
    bool | None, typer.Option("--softmax/--no-softmax", help="Whether such a file has a softmax, instead of trying.")
]

AssumeLength = Annotated[int | None, typer.Option("-L", min=2, help="The length of its sequences, instead of trying.")]


def use(device: str = "cpu", threads: int = 1) -> torch.device:
    """Set torch up as the options say. A device that is not there is a usage error."""
    import torch

    torch.set_num_threads(threads)
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen).add(1)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = printable(str(error).splitlines()[0], 120) if str(error) else type(error).__name__
        raise typer.BadParameter(f"{device!r} cannot be used here ({reason})", param_hint="--device") from None
    if chosen.type == "meta":
        raise typer.BadParameter("a model on 'meta' has no values", param_hint="--device")
    return chosen


def expand(paths: list[Path]) -> list[Path]:
    """Files as they are given; for a folder, the checkpoints in it and below it, in order of their names."""
    files: list[Path] = []
    for path in paths:
        files += _inside(path) if os.path.isdir(path) else [path]  # unlike Path.is_dir, never raises
    return files


def _inside(folder: Path) -> list[Path]:
    """The folder itself where it holds none, so that reading it says what is missing."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(where, name) for name in names if name.endswith(ENDINGS) and not name.startswith(".")]
    return sorted(found, key=_natural) or [folder]


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """step_2 before step_10."""
    digits = "".join(char if char.isascii() and char.isdigit() else f"\0{char}\0" for char in str(path))
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in digits.split("\0") if part]


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of one file: a result, or the reason why it was refused."""

    path: Path
    result: R | None = None
    error: CheckpointError | None = None

    def entry(self, facts: Callable[[R], dict[str, Any]]) -> dict[str, Any]:
        """One element of `results` in a `--json` document: the path with the `facts` of the result, or with `error`."""
        path = {"path": str(self.path)}
        if self.result is None:
            return {**path, "error": self.error.reason if self.error else None}
        return {**path, **facts(self.result)}


def for_each(paths: list[Path], work: Callable[[Path], R], what: str, workers: int = 1) -> list[Outcome[R]]:
    """`work` on every file, with a progress bar named `what`. A bad file is reported and does not stop the rest.

    With several `workers` files are worked on in threads (torch lets go of the interpreter); their order stays."""

    def attempt(path: Path) -> Outcome[R]:
        try:
            return Outcome(path, result=work(path))
        except CheckpointError as error:
            return Outcome(path, error=_about_folder(path, error))

    outcomes: list[Outcome[R]] = []
    files = expand(paths)
    with progress_bar() as progress, ThreadPoolExecutor(max(1, min(workers, len(files)))) as pool:
        results = pool.map(attempt, files) if workers > 1 else map(attempt, files)
        for outcome in progress.track(results, total=len(files), description=what) if len(files) > 1 else results:
            outcomes.append(outcome)
            if outcome.error is not None:
                complain(str(outcome.error))
    return outcomes


def _about_folder(path: Path, error: CheckpointError) -> CheckpointError:
    if not os.path.isdir(path):
        return error
    return CheckpointError(path, f"is a folder without checkpoints ({', '.join(ENDINGS)}); give one that has some")


def exit_code(outcomes: list[Outcome[R]]) -> int:
    """0, or 3 where a file was refused."""
    return CHECKPOINT_REFUSED if any(outcome.error for outcome in outcomes) else 0
