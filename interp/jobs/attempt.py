"""A task, handed to a worker, becomes an attempt: a result or the reason why there is none."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from counting_interp.util.errors import InterpError


class Task(Protocol):
    """Something to do, with a name of its own; it travels to a worker, so it can be pickled."""

    @property
    def name(self) -> str: ...


Runner = Callable[[Any], Any]  # task in, result out; a function of a module, or a value that can be pickled


@dataclass(frozen=True)
class Attempt:
    """What became of a task: its result, or else an error in one line."""

    task: Any
    result: Any = None
    error: str | None = None


def attempt(runner: Runner, task: Task) -> Attempt:
    """Do a task; whatever goes wrong in it is its outcome, and does not stop the others."""
    try:
        return Attempt(task, runner(task))
    except InterpError as error:
        return Attempt(task, error=str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Attempt(task, error=f"{type(error).__name__}: {error} ({where})")
