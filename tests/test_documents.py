"""README and docs: links lead somewhere, and every `sh` and `python` block is run as it stands.

A `python` block whose first line is the name of a file, `# my_model.py`, is that file; later blocks can import it.
What cannot be run here (hours of training, another machine, a language model of 14 GB) is written as a `text` block.
Commands run in this process, through the same entry point as `interp`.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from counting_interp.interp import cli
from tests.helpers import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("*/README.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.M | re.S)
FILE = re.compile(r"# (\w+)\.py\n")
SPHINX = {"{toctree}", "{eval-rst}"}
SPHINX |= {f"{{image}} pictures/{name}-{mode}.svg" for name in ("block", "transplants") for mode in ("light", "dark")}
SET_UP = ("make ", "source ", "pip ")  # done by hand once; `make test` is what runs this
EXPECTED = re.compile(r"# .*\bexits with (\d)")  # said in the comment of a command that does not exit with 0


def blocks(document: Path) -> list[tuple[str, str]]:
    return [(language.strip(), body) for language, body in BLOCK.findall(document.read_text(encoding="utf-8"))]


RUN = [path for path in DOCUMENTS if {"sh", "python"} & dict(blocks(path)).keys()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_says_what_it_is(document: Path) -> None:
    assert {language for language, _ in blocks(document)} <= {"sh", "python", "text", "json", "bibtex", *SPHINX}
    assert not re.search(r"^    interp ", document.read_text(encoding="utf-8"), re.M), "commands go into a fenced block"


def anchors(document: Path) -> set[str]:
    """As GitHub and the site write them: lower case, hyphens for blanks, without punctuation."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", document.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", sorted(ROOT.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_files_that_a_readme_names_are_there(document: Path) -> None:
    for line in document.read_text(encoding="utf-8").splitlines():
        folder = re.match(r"\| `(\w+)/`", line)  # a row of a table is about this folder
        for name in re.findall(r"`([\w/]+\.py)`", line):
            beside = [document.parent / (folder[1] if folder else ""), document.parent, ROOT]
            assert any((base / name).is_file() for base in beside), name


@pytest.mark.parametrize("document", [*DOCUMENTS, *OTHERS], ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        page = document.parent / name if name else document
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), target


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what a reader would see, not what our own tests refuse
@pytest.mark.parametrize("document", RUN, ids=lambda path: path.name)
def test_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": document.stem}
    for language, body in blocks(document):
        if file := FILE.match(body):
            (tmp_path / f"{file[1]}.py").write_text(body, encoding="utf-8")
            monkeypatch.delitem(sys.modules, file[1], raising=False)
        elif language == "python":
            exec(compile(body, str(document), "exec"), names)
        elif language == "sh":
            for line in body.splitlines():
                run(line, monkeypatch)


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line, comments=True)
    if not words or line.startswith(SET_UP):
        return
    assert words[0] == "interp", f"only interp's own commands are run from documents, not {line!r}"
    monkeypatch.setattr("sys.argv", words)
    code = 0
    try:
        cli.main()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    expected = EXPECTED.search(line)
    assert code == (int(expected[1]) if expected else 0), line
