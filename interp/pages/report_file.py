"""Writing the page to disk, atomically, with an error that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counting_interp.interp.pages.report import report_html
from counting_interp.interp.pages.report_entry import Subject
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import write_atomically


def write_report(subjects: Sequence[Subject], output: Path, others: Sequence[Subject] = ()) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, report_html(subjects, others).encode("utf-8"))
    except OSError as error:
        raise InterpError(f"cannot write {printable(str(output))}: {error.strerror}; choose another -o") from error
