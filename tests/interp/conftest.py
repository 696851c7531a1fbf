"""Commands without the seconds that a process of their own takes to import torch."""

from __future__ import annotations

import sys

import pytest

from counting_interp.interp.cli import main


@pytest.fixture
def interp(monkeypatch, capsys):
    """`interp ...` in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["interp", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
