"""The page of an atlas: maps, what is known of a cell, and the models, in one file that asks nothing of the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plotly.colors import PLOTLY_SCALES

from counting_interp.interp.figures.mechanism_map import COLOURS, LETTERS, PALEST
from counting_interp.interp.figures.pages import json_script
from counting_interp.interp.figures.style import SEQUENTIAL
from counting_interp.interp.pages.atlas_cells import settings_of
from counting_interp.interp.pages.atlas_weights import Live
from counting_interp.interp.pages.page import asset, whole_page
from counting_interp.interp.sweep.statistics import MECHANISMS
from counting_interp.interp.sweep.table import RunRow
from counting_interp.util.errors import InterpError

GENERATOR = "interp atlas"
TITLE = "Atlas of counting"
LIMIT = 15_000_000  # bytes of the page
PLACE = 200  # bytes, at most, that it takes to say where a model is
BODY = """
<header><h1>Atlas of counting</h1><p class="note" id="about"></p></header>
<div class="controls"><label class="field" id="settings">Setting <select></select></label>
<div role="group" aria-label="What the maps show" id="views"></div></div>
<div id="legend" class="legend"></div>
<div class="atlas"><section id="maps" aria-label="Maps: p to the right, d upwards; arrow keys walk from cell to cell">
</section><section id="cell" aria-label="The chosen cell" aria-live="off"></section></div>
<div id="tip" class="tip" hidden></div>
"""


def atlas_html(runs: Sequence[RunRow], models: Iterable[Live], source: str, limit: int = LIMIT) -> str:
    """The whole page, with as many of the models as there is room for; `source` says where the runs are from."""
    settings = settings_of(runs)
    room = limit - len(_page(settings, [], source).encode())
    if room < 0:
        raise InterpError(f"the page would be larger than {limit / 1e6:.0f} MB; make one of fewer sweeps")
    live: list[Live] = []
    for model in models:
        room -= len(model.payload) + PLACE
        if room < 0:
            break
        live.append(model)
    _attach(settings, live)
    return _page(settings, live, source)


def _page(settings: list[dict[str, Any]], live: Sequence[Live], source: str) -> str:
    data = [json_script(f"live-{number}", one.payload) for number, one in enumerate(live)]
    scale = PLOTLY_SCALES[SEQUENTIAL]
    mechanisms = {
        name: {"words": words, "colour": COLOURS[name], "letter": LETTERS[name]} for name, words in MECHANISMS.items()
    }
    atlas = {
        "source": source,
        "mechanisms": mechanisms,
        "palest": PALEST,
        "scale": [[stop, colour] for stop, colour in scale],
        "settings": settings,
        "live": len(live),
    }
    scripts = [asset("model.js"), asset("live.js")]
    scripts += [asset(name) for name in ("address.js", "colours.js", "maps.js", "cell.js", "atlas.js")]
    style = asset("page.css") + asset("atlas.css")
    return whole_page(TITLE, GENERATOR, style, [BODY], [json_script("atlas", atlas), *data], scripts)


def _attach(settings: list[dict[str, Any]], live: Sequence[Live]) -> None:
    """Tell each cell which model of the page is its own."""
    known = {(one.cell.setting.slug, one.cell.model, one.cell.d, one.cell.p): i for i, one in enumerate(live)}
    for setting in settings:
        for cell in setting["cells"]:
            number = known.get((setting["name"], cell["model"], cell["d"], cell["p"]))
            if number is not None:
                cell["live"] = {"id": f"live-{number}", "about": live[number].about, "run": live[number].run}
