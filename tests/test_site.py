"""The site builds from what is in the repository, without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.interp.browser import chromium, needs_browser


@needs_browser
@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("furo")
    for name in ("report.html", "atlas.html"):  # what takes long is tested where it is made
        (tmp_path / name).write_text("<!doctype html>")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-c", "docs/site", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.glob("*.html")}
    assert 'src="live.html"' in pages["index.html"]
    with chromium(tmp_path / "profile") as page:
        page.open(tmp_path / "live.html")
        assert "Predicted counts: 5 5 1 5 5 5 1 3 3 3." in page.evaluate("document.body.innerText")
    assert "--certificate" in pages["commands.html"]
    assert not [name for name, text in pages.items() if 'src="http' in text or 'rel="stylesheet" href="http' in text]
