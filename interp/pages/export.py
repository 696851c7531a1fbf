"""Writes figures: HTML and CSV; PNG, SVG and PDF if a Chrome or Chromium is found; and an index.

All pages of a folder share the `plotly.min.js` beside them, so they open without a network. Move it with the pages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.pages import asset, page
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import OutputFolder

GENERATOR = "interp figures"
FORMATS = ("html", "png", "svg", "pdf")
IMAGES = ("png", "svg", "pdf")
INDEX = "index.html"
PNG_SCALE = 3  # 288 dots per inch at the widths of `style`
NO_BROWSER = (
    "no Chrome or Chromium was found, so {formats} could not be written (HTML and CSV were). Install one, for example "
    "with `kaleido_get_chrome`, or name it in the environment variable BROWSER_PATH"
)


Watch = Callable[[Sequence[Figure]], Iterable[Figure]]


@dataclass(frozen=True)
class Export:
    """What `write` did.

    Attributes:
        paths: the files written, in order.
        missing: why images were not written, in a sentence for the user; None if all were.
    """

    paths: tuple[Path, ...]
    missing: str | None = None


def parse_formats(text: str) -> tuple[str, ...]:
    """`html,png` -> ("html", "png").

    Raises:
        ValueError: a format is unknown, or there is none.
    """
    formats = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise ValueError(f"formats are {', '.join(FORMATS)}, separated by commas; got {text!r}")
    return formats


def write(
    drawings: Iterable[Figure],
    folder: str | Path | OutputFolder,
    formats: Sequence[str] = FORMATS,
    *,
    titles: bool = True,
    watch: Watch = iter,
) -> Export:
    """Writes each drawing into `folder` as NAME.FORMAT and its numbers as NAME.csv, and an `index.html`.

    CSV is always written. Without a browser, HTML is written instead of images.

    Args:
        titles: whether images show the title, the model and its sizes.
        watch: wraps the drawings while images are made, for a progress bar; an image takes about a second.

    Raises:
        ValueError: two drawings have the same name.
        OutputError: a file would replace one that this command did not make.
        InterpError: the folder cannot be written.
    """
    drawings = list(drawings)
    names = [drawing.name for drawing in drawings]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two figures would be written to the same file: {duplicates[0]}")
    target = folder if isinstance(folder, OutputFolder) else OutputFolder(Path(folder))
    target.check([INDEX, *(f"{name}.{ending}" for name in names for ending in ("csv", *formats))])
    images = [name for name in formats if name in IMAGES]
    rendered, missing = render(drawings, images, titles=titles, watch=watch) if images else ({}, None)
    try:
        return Export(tuple(_write_all(drawings, target, formats, rendered, missing is not None)), missing)
    except OSError as error:
        shown = printable(str(target.folder))
        raise InterpError(f"cannot write figures into {shown!r}: {error.strerror}; choose another -o") from error


def _write_all(
    drawings: Sequence[Figure],
    target: OutputFolder,
    formats: Sequence[str],
    rendered: Mapping[tuple[str, str], bytes],
    instead: bool,
) -> Iterator[Path]:
    """Writes and yields the files one by one, the index last. With `instead`, pages replace images."""
    pages = "html" in formats or instead
    if pages:
        from plotly.offline import get_plotlyjs

        yield target.write("plotly.min.js", get_plotlyjs().encode())
    for drawing in drawings:
        if pages:
            yield target.write(f"{drawing.name}.html", figure_page(drawing).encode())
        for name in IMAGES:
            if (drawing.name, name) in rendered:
                yield target.write(f"{drawing.name}.{name}", rendered[drawing.name, name])
        yield target.write(f"{drawing.name}.csv", drawing.to_csv().encode())
    if drawings:
        yield target.write(INDEX, index_page(drawings, target.made).encode())


def index_page(drawings: Sequence[Figure], made: Sequence[str]) -> str:
    """The index of a folder: the new figures with their captions, and links to earlier ones.

    Args:
        made: the names of all files that were made in the folder.
    """
    body, about = ["<header><h1>Figures</h1></header>"], ""
    for drawing in drawings:
        if drawing.about != about:
            about = drawing.about
            body.append(f"<h2>{escape(about)}</h2>")
        files = [f"{drawing.name}.{ending}" for ending in (*FORMATS, "csv") if f"{drawing.name}.{ending}" in made]
        picture = next((name for name in files if name.endswith((".svg", ".png"))), None)
        shown = "" if picture is None else f'<img src="{picture}" alt="{escape(drawing.title)}" loading="lazy">'
        shown = f'<a href="{files[0]}">{shown or escape(drawing.title)}</a>'
        links = ", ".join(f'<a href="{name}">{name.rpartition(".")[2]}</a>' for name in files)
        body.append(
            f"<figure><h3>{escape(drawing.title)}</h3>{shown}"
            f'<figcaption>{escape(drawing.caption)}</figcaption><p class="note">{links}</p></figure>'
        )
    new = {drawing.name for drawing in drawings}
    others = [name for name in made if name.endswith(".html") and name != INDEX and name[:-5] not in new]
    if others:
        links = "".join(f'<li><a href="./{quote(name)}">{escape(name)}</a></li>' for name in others)
        body.append(f"<h2>Drawn before</h2><ul>{links}</ul>")
    return page("Figures", GENERATOR, body, {}, [], kind="single index", pictures=True)


def render(
    drawings: Sequence[Figure], formats: Sequence[str], *, titles: bool = True, watch: Watch = iter
) -> tuple[dict[tuple[str, str], bytes], str | None]:
    """Renders images in one browser.

    Args:
        titles: whether images show the title, the model and its sizes.

    Returns:
        Image bytes by (name, format), and None; without a browser, an empty dict and the reason.
    """
    from choreographer.errors import BrowserFailedError, ChromeNotFoundError

    def run() -> dict[tuple[str, str], bytes]:
        return asyncio.run(_render(watch(drawings), formats, titles))

    try:
        with ThreadPoolExecutor(1) as thread:  # the thread of a notebook already runs an event loop
            return thread.submit(run).result(), None
    except ChromeNotFoundError:
        return {}, NO_BROWSER.format(formats=", ".join(formats))
    except BrowserFailedError as error:
        return {}, f"{NO_BROWSER.format(formats=', '.join(formats))} (a browser was found but failed: {error})"


async def _render(drawings: Iterable[Figure], formats: Sequence[str], titles: bool) -> dict[tuple[str, str], bytes]:
    import kaleido

    images = {}
    logging.getLogger("choreographer.channels.pipe").addFilter(not_a_goodbye)
    async with kaleido.Kaleido(n=1, mathjax=False) as browser:  # mathjax would be fetched from the network
        for drawing in drawings:
            for name in formats:
                options = {"format": name, "scale": PNG_SCALE if name == "png" else 1}
                images[drawing.name, name] = await browser.calc_fig(
                    drawing.titled() if titles else drawing.to_dict(), opts=options
                )
    return images


def not_a_goodbye(record: logging.LogRecord) -> bool:
    """Whether a record of choreographer's pipe is news.

    At its end choreographer writes `{bye}` into its own pipe. Where a last message of the browser is read together
    with it, choreographer takes the goodbye for broken JSON and logs a traceback. Every other broken message is news.
    """
    error = record.exc_info[1] if record.exc_info else None
    words = str(getattr(getattr(error, "__cause__", None), "doc", "")).split()
    return not words or any(word != "{bye}" for word in words)


def figure_page(figure: Figure) -> str:
    """An HTML page with the figure, its caption and a link to its numbers; it loads the `plotly.min.js` beside it."""
    body = [
        f'<header><h1>{escape(figure.title)}</h1><p class="note">{escape(figure.about)}</p></header>',
        f'<div id="figure" class="plot" data-plot="figure-data"></div><p>{escape(figure.caption)}</p>',
        f'<p class="note"><a href="{escape(figure.name)}.csv">The numbers as CSV</a></p>',
    ]
    data = {"figure-data": figure.to_json()}
    return page(figure.title, GENERATOR, body, data, [asset("theme.js")], beside=["plotly.min.js"], kind="single")
