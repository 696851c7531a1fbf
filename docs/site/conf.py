"""The site: `make docs` builds it into out/docs, without a network, and every warning is an error.

Pages are docs/*.md as they stand, and the notebooks with their stored outputs. Two things are made at build time:
the reference of the command line, from the commands themselves, and the pages in which models run.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(SITE)]

from generated import commands, write_pages  # noqa: E402

project = "counting-interp"
author = "the counting-interp authors"
version = release = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]  # type: ignore[index]
html_title = f"{project} {version}"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
repository = os.environ.get("GITHUB_REPOSITORY")  # the forge that publishes the site says where it is
html_theme_options = {"source_repository": f"https://github.com/{repository}/"} if repository else {}
exclude_patterns = ["site"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nb_execution_mode = "off"  # `python notebooks/store_outputs.py` runs them, and the tests compare
nb_merge_streams = True
smartquotes_action = "qe"  # quotes and dots, not dashes: --json is an option
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"  # docstrings write `code` as Markdown does
suppress_warnings = ["misc.highlighting_failure"]


NOTEBOOKS = SITE.parent / "notebooks"  # a copy, which git ignores: pages lie below the folder that Sphinx reads
shutil.rmtree(NOTEBOOKS, ignore_errors=True)
shutil.copytree(ROOT / "notebooks", NOTEBOOKS, ignore=shutil.ignore_patterns("*.py", "__pycache__", ".ipynb*"))


FOLDER = re.compile(r"\[([^\]]+)\]\(((?:\.\./)?[\w./-]+/?)\)")


def _as_pages(app: Any, name: str, source: list[str]) -> None:
    """In the repository notebooks lie beside docs/, on the site below it; and a folder is a link on a forge only."""
    here = (SITE.parent / name).parent
    text = source[0].replace("](../notebooks/", "](notebooks/").replace("](../docs/", "](../")
    text = FOLDER.sub(lambda link: link[1] if (here / link[2]).is_dir() else link[0], text)
    source[0] = text.replace("<!-- commands -->", commands()) if "<!-- commands -->" in text else text


def _finish(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.name == "html":
        write_pages(Path(app.outdir))


def setup(app: Any) -> None:
    app.connect("source-read", _as_pages)
    app.connect("build-finished", _finish)
