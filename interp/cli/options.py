"""Options that several commands share, each defined once: its name, its bounds, its words.

Numbers on the command line have bounds as numbers in files have: what would take all memory, or days before anything is
seen, is refused at once. Those of T, L, d and p are the configuration's.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.cli.console import CHECKPOINT_REFUSED, spinner, warn
from counting_interp.util.errors import CheckpointError

MAX_RUNS = 10_000
MAX_SEED = 2**63 - 1 - MAX_RUNS  # several runs have the seeds from the given one on
MAX_EPOCHS = 1_000_000
MAX_SNAPSHOTS = 10_000
MAX_SEARCH = 500_000  # T * T * L of a construction
MAX_PROCESSES = 256  # workers, or threads of one process


def with_option_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command as typer reads it: a parameter whose type is a dataclass becomes its fields, each an option."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in signature.parameters.items() if is_dataclass(each.annotation)
    }
    options: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        inner = inspect.signature(groups[name], eval_str=True).parameters.values() if name in groups else [parameter]
        options += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in inner]

    @wraps(command)
    def called(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        return command(**values)

    called.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    return called


def _at_most(limit: int) -> Callable[[int | None], int | None]:
    """A bound that the help need not name."""

    def check(value: int | None) -> int | None:
        if value is not None and value > limit:
            raise typer.BadParameter(f"{value} is larger than {limit}")
        return value

    return check


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """For the shell's completion: those of `names` that begin with what was typed."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def bundled(name: str) -> list[Path]:
    """The bundled models that `name` stands for: one, all of them (`zoo`), or none."""
    return [zoo_path(known) for known in zoo_names() if name in ("zoo", known)]


def one_file(name: Path) -> Path:
    """The file of this name, or else the bundled model.

    Raises:
        CheckpointError: if there is neither.
    """
    if os.path.lexists(name):
        return name
    if len(models := bundled(str(name))) != 1:
        raise missing(name)
    return models[0]


def _checked(ctx: typer.Context, paths: list[Path] | None) -> list[Path] | None:
    """Refuse the command if none of the files exists, before seconds are spent on importing torch.

    With `--json` missing files stand in the document instead.
    """
    if ctx.resilient_parsing or not paths:
        return paths
    absent = [path for path in paths if not os.path.lexists(path) and not bundled(str(path))]
    if len(absent) == len(paths) and "--json" not in sys.argv:
        for path in absent:
            warn(str(missing(path)))
        raise typer.Exit(CHECKPOINT_REFUSED)
    with spinner("loading torch"):
        import_module("counting_interp.models.transformer")
    return paths


def missing(path: Path) -> CheckpointError:
    """Names the nearest bundled model where the path looks like one."""
    reason = "does not exist; give a .pt or .safetensors file, or a name that `interp zoo` lists"
    if near := get_close_matches(str(path), zoo_names(), n=1):
        reason = f"does not exist, and no bundled model has this name; did you mean {near[0]}?"
    return CheckpointError(path, reason)


# readable=False: a file that cannot be read is reported like any other bad file, and the rest is worked on
FilesArgument = typer.Argument(
    autocompletion=completing(lambda: (*zoo_names(), "zoo")),
    callback=_checked,
    metavar="CKPT",
    help="Checkpoints, folders of them, names of bundled models, or `zoo` for all of those.",
    readable=False,
    show_default=False,
)
Files = Annotated[list[Path], FilesArgument]
Alphabet = Annotated[int, typer.Option("-T", help="Tokens in the alphabet.")]
Length = Annotated[int, typer.Option("-L", help="Length of a sequence.")]
Dimension = Annotated[int | None, typer.Option("-d", help="Embedding dimension.")]
Units = Annotated[int | None, typer.Option("-p", help="Hidden units.")]
_SEED = typer.Option("--seed", min=0, callback=_at_most(MAX_SEED), help="Seed of everything that is sampled.")
Seed = Annotated[int, _SEED]
OptionalSeed = Annotated[int | None, _SEED]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there, whoever made it.")]
OverwriteCheckpoint = Annotated[bool, typer.Option("--overwrite", help="Replace the checkpoint at -o.")]
Page = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page.")]
Checkpoint = Annotated[Path, typer.Option("-o", "--output", help="The checkpoint to write, .pt or .safetensors.")]
Threads = Annotated[
    int,
    typer.Option("--threads", min=1, max=MAX_PROCESSES, help="Threads of torch; small models are fastest with one."),
]


def check_searchable(T: int, L: int) -> None:
    """Refuse sizes at which constructions and their embeddings take more than about a minute and a gigabyte."""
    if T * T * L > MAX_SEARCH:
        raise typer.BadParameter(
            f"T={T}, L={L} would take very long: T * T * L may be up to {MAX_SEARCH:,} here; "
            "`models.constructions.construct` in Python takes any",
            param_hint="-T",
        )
