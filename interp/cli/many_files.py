"""One command over many files: which files, how each is loaded, what happens when one is bad, and what is printed."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, NoReturn, TypeVar

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import CHECKPOINT_REFUSED, DONE, print_json, progress_bar, spinner, warn
from counting_interp.models.config import MIXINGS
from counting_interp.util.errors import AdapterWarning, CheckpointError, InterpError, printable
from counting_interp.util.files import ENDINGS

if TYPE_CHECKING:
    from counting_interp.models.protocol import CountingModel

R = TypeVar("R")
UNSAID = "If a file does not say (otherwise what fits is tried)"  # panels of the help
OTHERS = "Models of another kind"


def _known_mixing(value: str | None) -> str | None:
    if value is not None and value not in MIXINGS:
        raise typer.BadParameter(f"{value!r} is none of {', '.join(map(repr, MIXINGS))}")
    return value


@dataclass(frozen=True)
class Assumptions:
    """Options of commands that read checkpoints: what to assume of a file without configuration, and the threads."""

    mixing: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(MIXINGS),
            callback=_known_mixing,
            autocompletion=opt.completing(lambda: MIXINGS),
            help="How it mixes tokens.",
            rich_help_panel=UNSAID,
        ),
    ] = None
    softmax: Annotated[
        bool | None,
        typer.Option("--softmax/--no-softmax", help="Whether it has a softmax.", rich_help_panel=UNSAID),
    ] = None
    length: Annotated[
        int | None, typer.Option("-L", min=2, help="The length of its sequences.", rich_help_panel=UNSAID)
    ] = None
    threads: opt.Threads = 1

    def assumed(self) -> dict[str, Any]:
        """Sets the threads. Returns the assumptions as `models.checkpoint.read` takes them."""
        import torch

        torch.set_num_threads(self.threads)
        given = {"mixing": self.mixing, "softmax": self.softmax, "L": self.length}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Loading(Assumptions):
    """Options of commands that take any counting model."""

    adapter: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="A Python function of yours that takes the path and returns a counting_interp.Adapter.",
            rich_help_panel=OTHERS,
        ),
    ] = None
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="IDS.json", help="Hugging Face: which token ids are counted.", rich_help_panel=OTHERS),
    ] = None
    classes: Annotated[
        Path | None,
        typer.Option(metavar="IDS.json", help="Hugging Face: which logits are count 1, 2, ...", rich_help_panel=OTHERS),
    ] = None

    def loader(self) -> Callable[[Path], CountingModel]:
        """How to load a file: as a checkpoint, a Hugging Face folder, or with the user's own function."""
        assumed = self.assumed()
        if self.adapter is not None:
            if assumed or self.tokens or self.classes:
                raise typer.BadParameter("--adapter says all of a model: no --mixing, --softmax, -L or ids with it")
            return _adapter_loader(self.adapter)
        from counting_interp.models import CountingTransformer
        from counting_interp.models.adapter import huggingface

        given = {"tokens": self.tokens, "classes": self.classes}
        try:
            ids = {name: huggingface.ids(path) for name, path in given.items() if path}
        except InterpError as error:
            raise typer.BadParameter(str(error)) from error

        def load(path: Path) -> CountingModel:
            if not huggingface.is_folder(path):
                return CountingTransformer.load(path, **assumed)
            if unfit := sorted(set(assumed) - {"L"}):
                raise CheckpointError(path, f"is a Hugging Face model, of which --{unfit[0]} says nothing")
            model = huggingface.load(path, L=assumed.get("L"), **ids)
            for note in model.notes:
                warn(f"{shown(path)}: {note}")
            return model

        return load


def _adapter_loader(spec: str) -> Callable[[Path], CountingModel]:
    """The function that `--adapter FILE.py:NAME` names; its errors become ours. Only here is the user's code run."""
    from counting_interp.models.protocol import CountingModel

    file, _, name = spec.rpartition(":")
    if not file or not name:
        raise typer.BadParameter(f"--adapter is a Python file and a function in it, my_model.py:load; got {spec!r}")
    load = getattr(_run_file(Path(file)), name, None)
    if not callable(load):
        raise typer.BadParameter(f"{file} has no function {name}, which --adapter names")

    def checked(path: Path) -> CountingModel:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", category=AdapterWarning)  # its notes are printed below
                model = load(path)
        except (InterpError, OSError) as error:
            raise CheckpointError(path, f"{name} of {file} refused it: {printable(str(error), 600)}") from error
        except Exception as error:
            what = printable(f"{type(error).__name__}: {error}", 600)
            reason = f"{name} of {file} failed on it ({what}); call it from Python to see where"
            raise CheckpointError(path, reason) from error
        if not isinstance(model, CountingModel):
            got = type(model).__name__
            raise CheckpointError(path, f"{name} of {file} must return a models.Adapter, it returned a {got}")
        for note in getattr(model, "notes", ()):
            warn(f"{path}: {note}")
        return model

    return checked


def _run_file(file: Path) -> object:
    """The file as a module; what lies beside it can be imported from it."""
    spec = spec_from_file_location(f"adapter_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise typer.BadParameter(f"--adapter: there is no Python file {file}")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    beside = str(file.resolve().parent)
    if beside not in sys.path:
        sys.path.append(beside)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = printable(f"{type(error).__name__}: {error}", 600)
        raise typer.BadParameter(f"--adapter: {file} cannot be imported ({what})") from error
    return module


def expand(paths: list[Path]) -> list[Path]:
    """Files as they are given; for a folder, the checkpoints in it and below it, in order of their names.

    What is not there may be the name of a bundled model, or `zoo`, which stands for all of them.
    """
    files: list[Path] = []
    for path in paths:
        if not os.path.lexists(path):
            files += opt.bundled(str(path)) or [path]
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
    """A path to print: without control characters, a long one shortened to its end, a bundled model by its name."""
    from counting_interp.data import ZOO

    text = path.stem if path.parent == ZOO else printable(str(path), 10_000)
    return text if len(text) <= limit else "\N{HORIZONTAL ELLIPSIS}" + text[1 - limit :]


def _inside(folder: Path) -> list[Path]:
    """Checkpoints below a folder, and folders that may not be read. The folder itself where it holds none.

    Reading a folder that is returned says what is wrong with it.
    """
    files: list[Path] = []
    closed: list[OSError] = []
    for where, folders, names in os.walk(folder, onerror=closed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(where, name) for name in names if name.endswith(ENDINGS) and not name.startswith(".")]
    files += [Path(error.filename) for error in closed]
    return sorted(files, key=_natural) or [folder]


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """step_2 before step_10."""
    digits = "".join(char if char.isascii() and char.isdigit() else f"\0{char}\0" for char in str(path))
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in digits.split("\0") if part]


@dataclass(frozen=True)
class FileOutcome(Generic[R]):
    """The outcome of one file: a result, or the reason why it was refused."""

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
    """Do `work` on every file. A bad file is reported and does not stop the rest.

    Args:
        what: shown beside the spinner or the progress bar; empty for neither.
        workers: threads that work on files at a time (torch releases the interpreter). The order of outcomes stays.
    """

    def attempt(path: Path) -> FileOutcome[R]:
        if not os.path.lexists(path):
            return FileOutcome(path, error=opt.missing(path))
        try:
            return FileOutcome(path, result=work(path))
        except CheckpointError as error:
            return FileOutcome(path, error=_about_folder(path, error))
        except InterpError as error:  # a model that this command cannot work on
            return FileOutcome(path, error=CheckpointError(path, str(error)))

    outcomes: list[FileOutcome[R]] = []
    files = expand(paths)
    if len(files) == 1:
        with spinner(f"{what} {shown(files[0], 60)}") if what else nullcontext():
            outcomes.append(attempt(files[0]))
        if outcomes[0].error is not None:
            warn(str(outcomes[0].error))
        return outcomes
    with progress_bar() as progress, ThreadPoolExecutor(max(1, min(workers, len(files)))) as pool:
        results = pool.map(attempt, files) if workers > 1 else map(attempt, files)
        for outcome in progress.track(results, total=len(files), description=what):
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


def finish(
    outcomes: list[FileOutcome[R]],
    *,
    as_json: bool,
    facts: Callable[[R], dict[str, Any]],
    one: Callable[[Path, R], str],
    several: Callable[[list[tuple[Path, R]]], str],
    failure: int = DONE,
    **fields: Any,
) -> NoReturn:
    """Print the results and end the command: exit code 3 where a file was refused, else `failure`.

    Args:
        facts: of a result, for the JSON document; fields: its further entries.
        one, several: the text, where the command was given one file or several.
    """
    results = [(outcome.path, outcome.result) for outcome in outcomes if outcome.result is not None]
    if as_json:
        print_json([outcome.entry(facts) for outcome in outcomes], **fields)
    elif results:
        typer.echo(one(*results[0]) if len(outcomes) == 1 else several(results))
    raise typer.Exit(exit_code(outcomes) or failure)


def exit_code(outcomes: list[FileOutcome[R]]) -> int:
    """0, or 3 where a file was refused."""
    return CHECKPOINT_REFUSED if any(outcome.error for outcome in outcomes) else DONE
