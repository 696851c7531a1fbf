"""The site builds from what is in the repository, without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("furo")
    for name in ("report.html", "atlas.html"):  # what takes long is tested where it is made
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / name).write_text("<!doctype html>")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "html",
        "-c",
        "docs/site",
        "-d",
        str(tmp_path / "trees"),
    ]
    done = subprocess.run([*command, "docs", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    start = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'src="live.html"' in start
    assert 'data-live="model-0"' in (tmp_path / "site" / "live.html").read_text(encoding="utf-8")
    assert "--certificate" in (tmp_path / "site" / "commands.html").read_text(encoding="utf-8")
    pages = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site").glob("*.html"))
    assert not [line for line in pages.splitlines() if 'src="http' in line or 'stylesheet" href="http' in line]
