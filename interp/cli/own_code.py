"""`--adapter my_model.py:load`: the one place where code of the user is run, as it was named on the command line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import typer

from counting_interp.interp.cli.console import warn
from counting_interp.models.protocol import CountingModel
from counting_interp.util.errors import AdapterWarning, CheckpointError, InterpError, printable


def loader(spec: str) -> Callable[[Path], CountingModel]:
    """The function that `spec` names, as one that refuses files as ours does. What cannot be found or imported is an
    error of usage."""
    file, _, name = spec.rpartition(":")
    if not file or not name:
        raise typer.BadParameter(f"--adapter is a Python file and a function in it, my_model.py:load; got {spec!r}")
    load = getattr(_run(Path(file)), name, None)
    if not callable(load):
        raise typer.BadParameter(f"{file} has no function {name}, which --adapter names")

    def checked(path: Path) -> CountingModel:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", category=AdapterWarning)  # what it says is complained of below
                model = load(path)
        except (InterpError, OSError) as error:
            raise CheckpointError(path, f"{name} of {file} refused it: {printable(str(error), 600)}") from error
        except Exception as error:
            what = printable(f"{type(error).__name__}: {error}", 600)
            raise CheckpointError(
                path, f"{name} of {file} failed on it ({what}); call it from Python to see where"
            ) from error
        if not isinstance(model, CountingModel):
            got = type(model).__name__
            raise CheckpointError(path, f"{name} of {file} must return a models.Adapter, it returned a {got}")
        for note in getattr(model, "notes", ()):
            warn(f"{path}: {note}")
        return model

    return checked


def _run(file: Path) -> object:
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
