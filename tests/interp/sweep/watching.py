"""Waiting for what other processes do, with a deadline."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE = 180.0


def until(holds: Callable[[], bool], what: str) -> None:
    """Look again every 10 ms until `holds()`; fail after three minutes."""
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        select.select([], [], [], 0.01)


def appears(path: Path) -> str:
    """The text of a file that another process is about to write."""
    until(path.exists, f"{path} appears")
    return path.read_text()


def ends(process: int) -> None:
    """Wait for a process that is no child of ours."""
    until(lambda: not _runs(process), f"process {process} ends")


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return os.path.exists(f"/proc/{process}") and state != "Z"
