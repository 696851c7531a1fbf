"""Writing the page to disk, atomically, with an error that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counting_interp.interp.report.page import report_html
from counting_interp.interp.report.subject import Subject
from counting_interp.models.errors import InterpError, printable
from counting_interp.models.files import write_atomically


def write_report(subjects: Sequence[Subject], output: Path, others: Sequence[Subject] = ()) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, report_html(subjects, others).encode("utf-8"))
    except OSError as error:
        raise InterpError(f"cannot write {printable(str(output))}: {error.strerror}; choose another -o") from error
