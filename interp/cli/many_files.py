"""What every command that reads checkpoints shares: its options, its files, and what happens when one is bad."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer

from counting_interp.interp.cli.console import CHECKPOINT_REFUSED, print_json, progress_bar, spinner, warn
from counting_interp.interp.cli.options import Json as Json
from counting_interp.interp.cli.options import Overwrite as Overwrite
from counting_interp.interp.cli.options import Seed as Seed
from counting_interp.interp.cli.options import Threads as Threads
from counting_interp.util.errors import CheckpointError, InterpError, printable
from counting_interp.util.outputs import ENDINGS

if TYPE_CHECKING:
    from counting_interp.models.protocol import CountingModel

R = TypeVar("R")


class Mixing(str, Enum):
    lin = "lin"
    dot = "dot"
    bos = "bos"


def _zoo_names(incomplete: str) -> list[str]:
    """For the shell's completion, which also offers files where nothing fits."""
    from counting_interp.data import zoo_names

    return [name for name in (*zoo_names(), "zoo") if name.startswith(incomplete)]


def _checked(ctx: typer.Context, paths: list[Path] | None) -> list[Path] | None:
    """Refuse names of which none is there, before seconds are spent on importing torch; then import it, with a sign of
    life. With `--json` what is not there stands in the document."""
    if ctx.resilient_parsing or not paths:
        return paths
    missing = [path for path in paths if not os.path.lexists(path) and not _bundled(str(path))]
    if len(missing) == len(paths) and "--json" not in sys.argv:
        for path in missing:
            warn(str(_missing(path)))
        raise typer.Exit(CHECKPOINT_REFUSED)
    with spinner("loading torch"):
        import_module("counting_interp.models.transformer")
    return paths


def _missing(path: Path) -> CheckpointError:
    """Says the nearest name of a bundled model where it looks like one."""
    from counting_interp.data import zoo_names

    reason = "does not exist; give a .pt or .safetensors file, or a name that `interp zoo` lists"
    if near := get_close_matches(str(path), zoo_names(), n=1):
        reason = f"does not exist, and no bundled model has this name; did you mean {near[0]}?"
    return CheckpointError(path, reason)


# readable=False: a file that cannot be read is reported like any other bad file, and the rest is worked on
FilesArgument = typer.Argument(
    autocompletion=_zoo_names,
    callback=_checked,
    metavar="CKPT ...",
    help="Checkpoints, folders of them, names of bundled models, or `zoo` for all of those.",
    readable=False,
    show_default=False,
)
Files = Annotated[list[Path], FilesArgument]
AssumeMixing = Annotated[
    Mixing | None, typer.Option("--mixing", help="How a file without configuration mixes tokens, instead of trying.")
]
AssumeSoftmax = Annotated[
    bool | None, typer.Option("--softmax/--no-softmax", help="Whether such a file has a softmax, instead of trying.")
]
AssumeLength = Annotated[int | None, typer.Option("-L", min=2, help="The length of its sequences, instead of trying.")]
OwnCode = Annotated[
    str | None,
    typer.Option(
        "--adapter", metavar="FILE.py:NAME", help="Run this Python function of yours on each file to load it."
    ),
]
TokenIds = Annotated[
    Path | None,
    typer.Option("--tokens", metavar="IDS.json", help="Of a Hugging Face folder: which token ids are counted."),
]
ClassIds = Annotated[
    Path | None,
    typer.Option("--classes", metavar="IDS.json", help="Of a Hugging Face folder: which logits are count 1, 2, ..."),
]


def assumptions(mixing: Mixing | None, softmax: bool | None, length: int | None) -> dict[str, Any]:
    """What to take for granted of a file without configuration, as `models.checkpoint.read` wants it."""
    given = {"mixing": mixing.value if mixing else None, "softmax": softmax, "L": length}
    return {name: value for name, value in given.items() if value is not None}


def loading(
    adapter: str | None, assume: dict[str, Any], tokens: Path | None = None, classes: Path | None = None
) -> Callable[[Path], CountingModel]:
    """How a command loads a file: as a checkpoint, a Hugging Face folder, or with the user's own function."""
    if adapter is not None:
        if assume or tokens or classes:
            raise typer.BadParameter("--adapter says all of a model: no --mixing, --softmax, -L or ids with it")
        from counting_interp.interp.cli.own_code import loader

        return loader(adapter)
    from counting_interp.models import CountingTransformer
    from counting_interp.models.adapter import huggingface

    try:
        named = {name: huggingface.ids(path) for name, path in (("tokens", tokens), ("classes", classes)) if path}
    except InterpError as error:
        raise typer.BadParameter(str(error)) from error

    def load(path: Path) -> CountingModel:
        if not huggingface.is_folder(path):
            return CountingTransformer.load(path, **assume)
        if unfit := sorted(set(assume) - {"L"}):
            raise CheckpointError(path, f"is a Hugging Face model, of which --{unfit[0]} says nothing")
        model = huggingface.load(path, L=assume.get("L"), **named)
        for note in model.notes:
            warn(f"{shown(path)}: {note}")
        return model

    return load


def use_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def expand(paths: list[Path]) -> list[Path]:
    """Files as they are given; for a folder, the checkpoints in it and below it, in order of their names.

    What is not there may be the name of a bundled model, or `zoo`, which stands for all of them.
    """
    files: list[Path] = []
    for path in paths:
        if not os.path.lexists(path):
            files += _bundled(str(path)) or [path]
        elif os.path.isdir(path) and not is_hugging_face(path):  # unlike Path.is_dir, never raises
            files += _inside(path)
        else:
            files.append(path)
    return files


def is_hugging_face(path: Path) -> bool:
    """Whether a folder holds one model as Hugging Face saves it. Cheap where there is no configuration."""
    if not os.path.isfile(os.path.join(path, "config.json")):
        return False
    from counting_interp.models.adapter import huggingface

    return huggingface.is_folder(path)


def shown(path: Path, limit: int = 200) -> str:
    """A path for people: nothing in it steers a terminal, a long one keeps its end, a bundled model has its name."""
    from counting_interp.data import ZOO

    text = path.stem if path.parent == ZOO else printable(str(path), 10_000)
    return text if len(text) <= limit else "\N{HORIZONTAL ELLIPSIS}" + text[1 - limit :]


def _bundled(name: str) -> list[Path]:
    from counting_interp.data import zoo_names, zoo_path

    return [zoo_path(known) for known in zoo_names() if name in ("zoo", known)]


def _inside(folder: Path) -> list[Path]:
    """The folder itself where it holds none, and those below that may not be read: reading them says what is wrong."""
    found: list[Path] = []
    closed: list[OSError] = []
    for where, folders, names in os.walk(folder, onerror=closed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(where, name) for name in names if name.endswith(ENDINGS) and not name.startswith(".")]
    found += [Path(error.filename) for error in closed]
    return sorted(found, key=_natural) or [folder]


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """step_2 before step_10."""
    digits = "".join(char if char.isascii() and char.isdigit() else f"\0{char}\0" for char in str(path))
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in digits.split("\0") if part]


@dataclass(frozen=True)
class FileOutcome(Generic[R]):
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


def for_each(paths: list[Path], work: Callable[[Path], R], what: str, workers: int = 1) -> list[FileOutcome[R]]:
    """`work` on every file, with a progress bar named `what`. A bad file is reported and does not stop the rest.

    With several `workers` files are worked on in threads (torch lets go of the interpreter); their order stays."""

    def attempt(path: Path) -> FileOutcome[R]:
        if not os.path.lexists(path):
            return FileOutcome(path, error=_missing(path))
        try:
            return FileOutcome(path, result=work(path))
        except CheckpointError as error:
            return FileOutcome(path, error=_about_folder(path, error))
        except InterpError as error:  # a model that this command cannot work on
            return FileOutcome(path, error=CheckpointError(path, str(error)))

    outcomes: list[FileOutcome[R]] = []
    files = expand(paths)
    with progress_bar() as progress, ThreadPoolExecutor(max(1, min(workers, len(files)))) as pool:
        results = pool.map(attempt, files) if workers > 1 else map(attempt, files)
        for outcome in progress.track(results, total=len(files), description=what) if len(files) > 1 else results:
            outcomes.append(outcome)
            if outcome.error is not None:
                warn(str(outcome.error))
    return outcomes


def _about_folder(path: Path, error: CheckpointError) -> CheckpointError:
    if not os.path.isdir(path) or is_hugging_face(path):
        return error
    try:
        os.scandir(path).close()
    except OSError as closed:
        return CheckpointError(path, f"is a folder that cannot be read ({closed.strerror}); change its permissions")
    return CheckpointError(path, f"is a folder without checkpoints ({', '.join(ENDINGS)}); give one that has some")


def present(
    outcomes: list[FileOutcome[R]],
    *,
    as_json: bool,
    facts: Callable[[R], dict[str, Any]],
    one: Callable[[Path, R], str],
    several: Callable[[list[tuple[Path, R]]], str],
    **fields: Any,
) -> None:
    """Print what was found: one JSON document, or one file as text, or several as a table.

    Args:
        facts: of a result, for JSON.
        one, several: the text.
        fields: more of the JSON document.
    """
    found = [(outcome.path, outcome.result) for outcome in outcomes if outcome.result is not None]
    if as_json:
        print_json([outcome.entry(facts) for outcome in outcomes], **fields)
    elif found:
        typer.echo(one(*found[0]) if len(outcomes) == 1 else several(found))


def exit_code(outcomes: list[FileOutcome[R]]) -> int:
    """0, or 3 where a file was refused."""
    return CHECKPOINT_REFUSED if any(outcome.error for outcome in outcomes) else 0
