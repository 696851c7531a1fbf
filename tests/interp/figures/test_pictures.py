"""Pictures that are stored, and those that are written, have the colours of their scales: nothing reduced them."""

from __future__ import annotations

import base64
import io

import nbformat
import pytest
from plotly.colors import sample_colorscale, unlabel_rgb

from counting_interp.interp.figures import figures_of, style
from counting_interp.interp.pages.export import render
from counting_interp.models.constructions import construct
from tests.helpers import ROOT
from tests.interp.browser import needs_browser

Image = pytest.importorskip("PIL.Image")
PICTURES = ROOT / "docs" / "pictures"


def lacks(picture: bytes, scale: str) -> list[float]:
    """Which ends of a scale no more than a few pixels of a picture have, to within what a browser rounds."""
    counted = Image.open(io.BytesIO(picture)).convert("RGB").getcolors(maxcolors=1 << 24)
    ends = {share: unlabel_rgb(sample_colorscale(scale, share)[0]) for share in (0.0, 1.0)}
    return [
        share
        for share, end in ends.items()
        if sum(n for n, colour in counted if max(abs(a - b) for a, b in zip(colour, end, strict=True)) <= 4) < 9
    ]


@pytest.mark.parametrize("name", ["cue-conflict-RC", "cue-conflict-IC", "phase-mean"])
def test_pictures_of_the_docs_have_the_ends_of_their_colour_bar(name: str) -> None:
    assert lacks((PICTURES / f"{name}.png").read_bytes(), style.SEQUENTIAL) == []


def test_the_stored_figure_1_has_the_ends_of_its_colour_bar() -> None:
    book = nbformat.read(ROOT / "notebooks" / "6-reproduce-the-figures.ipynb", as_version=4)
    pictures = [
        o.data["image/png"] for cell in book.cells for o in cell.get("outputs", ()) if "image/png" in o.get("data", {})
    ]
    assert lacks(base64.b64decode(pictures[0]), style.SEQUENTIAL) == []


@needs_browser
def test_a_written_picture_has_the_ends_of_its_colour_bar_and_a_reduced_one_is_found_out() -> None:
    (figure,) = figures_of(construct("rc-bos+sftm", T=8, L=6), ["cue-conflict"])
    images, _ = render([figure], ["png"])
    picture = images[figure.name, "png"]
    assert lacks(picture, style.SEQUENTIAL) == []
    reduced = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(16).save(reduced, "PNG")
    assert lacks(reduced.getvalue(), style.SEQUENTIAL) != []


@needs_browser
def test_an_image_says_its_title_and_its_model_unless_it_is_told_not_to() -> None:
    (figure,) = figures_of(construct("rc-bos+sftm", T=8, L=6), ["overlap"])
    named, _ = render([figure], ["svg"])
    bare, _ = render([figure], ["svg"], titles=False)
    for words in ("How much embeddings overlap", "T = 8, L = 6"):
        assert words in named[figure.name, "svg"].decode()
        assert words not in bare[figure.name, "svg"].decode()
