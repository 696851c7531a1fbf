"""CSV tables, written and read in one form.

None is an empty cell. NaN and infinities are `nan`, `inf` and `-inf`, as in Python, numpy and pandas. Floats are
written in full, so they read back as the same bits. An error names the line that cannot be read.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import read_with_patience

R = TypeVar("R")
MAX_BYTES = 256 * 2**20


def write_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as text with a header line; empty text for no rows.

    Args:
        columns: the header, which is then written even without rows; missing cells are empty. By default every row
            must have the columns of the first.

    Raises:
        ValueError: without `columns`, a row lacks a column of the first.
    """
    table = list(rows)
    names = list(columns or (table[0] if table else ()))
    if not names:
        return ""
    if columns is None and any(len(row) < len(names) for row in table):
        raise ValueError(f"a row lacks one of the columns {', '.join(names)}")
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def read_csv(
    path: str | Path, columns: Iterable[str], convert: Callable[[dict[str, str]], R], advice: str = ""
) -> list[R]:
    """The rows of a file, each converted from its texts by column.

    Args:
        columns: columns that the file must have; it may have others.
        convert: may raise a ValueError.
        advice: added to the error about a file that is not such a table.

    Raises:
        InterpError: names the file, and the line that `convert` could not read.
    """
    shown, after = printable(str(path)), f"; {advice}" if advice else ""
    rows: list[R] = []
    line = 0
    try:
        data = read_with_patience(path, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:  # such as an endless device
            raise InterpError(f"{shown} is larger than {MAX_BYTES // 2**20} MB, which no table is{after}")
        with io.StringIO(data.decode("utf-8-sig"), newline="") as text:
            reader = csv.DictReader(text)
            if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
                raise InterpError(f"{shown} lacks the column {missing[0]!r}{after}")
            line = 1
            for row in reader:
                line = reader.line_num
                if None in row or None in row.values():
                    raise ValueError(f"it has {_length(row)} cells, the header does not")
                rows.append(convert(row))
    except csv.Error as error:
        raise InterpError(f"{shown}, line {line + 1}: {printable(str(error))}{after}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InterpError(f"{shown} cannot be read as a table: {reason}{after}") from error
    except ValueError as error:
        raise InterpError(f"{shown}, line {line}: {printable(str(error))}") from error
    return rows


def cell_value(name: str, kind: str, value: Any) -> Any:
    """`value`, which may be text, as `kind`: str, int, float or bool (0, 1, False, True).

    If `kind` ends in ` | None`, an empty cell is None.

    Raises:
        ValueError: the value is not of this kind.
    """
    try:
        if kind.endswith(" | None"):
            return None if value in ("", None) else cell_value(name, kind.removesuffix(" | None"), value)
        if kind == "bool":
            return {"0": False, "1": True, "False": False, "True": True}[str(value)]
        return {"int": int, "float": float, "str": str}[kind](value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} cannot be {str(value)[:60]!r}") from error


def finite(name: str, value: Any) -> float:
    """`value`, which may be text, as a finite number.

    Raises:
        ValueError: it is not a number, or not finite.
    """
    number: float = cell_value(name, "float", value)
    if not math.isfinite(number):
        raise ValueError(f"{name} cannot be {str(value)[:60]!r}")
    return number


def _length(row: dict[Any, Any]) -> int:
    """The number of cells in a line. DictReader lists surplus cells under the key None; missing cells are None."""
    return sum(value is not None for key, value in row.items() if key is not None) + len(row.get(None) or ())
