"""Draw the pictures of README and docs again, from what comes with the package:

    python docs/pictures/draw.py [block | transplants | verdict | plane | cue-conflict | map | phase-mean ...]

`report.png` needs a training run and a browser window. `scripts` draw the ladder, the formation and the open question.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from counting_interp.interp.figures import figures_of, style
from counting_interp.interp.figures.figure import Figure

HERE = Path(__file__).parent
FONT = "Inter, Helvetica, Arial, 'Liberation Sans', sans-serif"
PAGE = {
    "light": {"paper": "#FFFFFF", "ink": "#1A1F27", "soft": "#5B6472", "card": "#F6F7F9", "line": "#C9CED6"},
    "dark": {"paper": "#14171C", "ink": "#E8EAEE", "soft": "#A3ABB8", "card": "#1C2129", "line": "#3A424F"},
}
PAGE["inline"] = {name: f"var(--{name})" for name in PAGE["light"]}
INLINE = HERE.parents[1] / "interp" / "pages" / "assets" / "transplants.svg"  # of the report
TOKENS = "BBCB"
COLUMNS = (
    ("RC", "relation-based", "Attention counts; the MLP reads one dial.", "“I am B”: not needed"),
    ("IC", "inventory-based", "Attention only mixes; the MLP knows every token.", "“I am B”: selects the unit"),
    ("gated", "needs both", "Attention counts; each token has its own dial.", "“I am B”: selects the unit"),
)
TEST = (
    "Read upwards; only the first B is followed. The test: give its position what copies of D are worth to D, or what "
    "copies of B are worth to a bystander.",
    "RC counts D's copies as its own, IC counts B's copies without a match, gated does neither.",
)
MOVED = (
    "How far the answer moves from 1 to 3 is the share of RC on the left and of IC on the right. What neither moves is "
    "gated."
)
TRANSPLANTS = (  # name, question, listener, copied token, answers by mechanism
    ("relation", "What are two more copies of D worth to D?", "D", "D", {"RC": "3", "IC": "1", "gated": "1"}),
    (
        "inventory",
        "What are two more copies of B worth to a bystander, Q?",
        "Q",
        "B",
        {"RC": "1", "IC": "3", "gated": "1"},
    ),
)


class Drawing:
    """Lines of an SVG in the colours of a light or a dark page, or, within a page (`inline`), in that page's own."""

    def __init__(self, mode: str) -> None:
        self.mode, self.page = mode, PAGE[mode]
        self.lines: list[str] = []

    def colour(self, mechanism: str) -> str:
        look = style.MECHANISMS[mechanism]
        return {"light": look.colour, "dark": look.dark, "inline": f"var(--{mechanism})"}[self.mode]

    def words(self, mechanism: str) -> str:
        look = style.MECHANISMS[mechanism]
        return {"light": look.text, "dark": look.dark, "inline": f"var(--{mechanism}-text)"}[self.mode]

    def on(self, mechanism: str) -> str:
        look = style.MECHANISMS[mechanism]
        return {"light": look.on, "dark": look.on_dark, "inline": f"var(--on-{mechanism})"}[self.mode]

    def text(self, x: float, y: float, words: str, size: float = 13, **look: object) -> None:
        more = {"fill": self.page["ink"], "text-anchor": "start", "font-weight": 400, **look}
        attributes = " ".join(f'{name}="{value}"' for name, value in more.items())
        self.lines.append(f'<text x="{x}" y="{y}" font-size="{size}" {attributes}>{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, radius: float = 8, **look: object) -> None:
        more = {"fill": self.page["card"], "stroke": self.page["line"], **look}
        attributes = " ".join(f'{name}="{value}"' for name, value in more.items())
        self.lines.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" {attributes}/>')

    def disc(self, x: float, y: float, radius: float, words: str, fill: str, ink: str, stroke: str) -> None:
        self.lines.append(
            f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
        )
        self.text(x, y + 4.5, words, 13, fill=ink, **{"text-anchor": "middle", "font-weight": 700})

    def path(self, points: str, colour: str, **look: object) -> None:
        more = {"fill": "none", "stroke": colour, "stroke-width": 2.5, **look}
        attributes = " ".join(f'{name}="{value}"' for name, value in more.items())
        self.lines.append(f'<path d="{points}" {attributes}/>')

    def arrow(self, x: float, low: float, high: float, colour: str) -> None:
        """Upwards from `low` to `high`."""
        self.path(f"M{x} {low}V{high + 7}", colour)
        self.lines.append(f'<path d="M{x} {high}l5 9h-10z" fill="{colour}"/>')

    def svg(self, width: int, height: int, title: str) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        )
        paper = f'<rect width="{width}" height="{height}" fill="{self.page["paper"]}"/>'
        name = f"<title>{escape(title)}</title>"
        return "\n".join([f'{head} font-family="{FONT}" role="img">', name, paper, *self.lines, "</svg>", ""])


def block(mode: str) -> str:
    """One block counting B B C B in three ways, read upwards."""
    drawing = Drawing(mode)
    drawing.text(
        24, 34, "Three ways for one block to see that B occurs three times in B B C B", 20, **{"font-weight": 700}
    )
    for number, (mechanism, words, sentence, lane) in enumerate(COLUMNS):
        left = 24 + 348 * number
        colour, ink = drawing.colour(mechanism), drawing.words(mechanism)
        badge = 18 + 9.5 * len(mechanism)
        drawing.box(left, 52, badge, 26, 6, fill=colour, stroke="none")
        middle = {"text-anchor": "middle", "font-weight": 700}
        drawing.text(left + badge / 2, 70, mechanism, 15, fill=drawing.on(mechanism), **middle)
        drawing.text(left + badge + 10, 70, words, 13, fill=drawing.page["soft"])
        drawing.text(left, 102, sentence, 13, fill=ink, **{"font-weight": 700})
        _column(drawing, mechanism, left + 34, lane)
    for line, words in enumerate(TEST):
        drawing.text(24, 556 + 17 * line, words, 12, fill=drawing.page["soft"])
    return drawing.svg(1080, 590, "RC, IC and gated counting in one block")


def _column(drawing: Drawing, mechanism: str, left: float, lane: str) -> None:
    colour, ink, soft = drawing.colour(mechanism), drawing.words(mechanism), drawing.page["soft"]
    centre, line, bold = left + 150, drawing.page["line"], {"font-weight": 700}
    for top, height, name in ((162, 98, "FEED-FORWARD LAYER"), (282, 70, "WHAT IT WRITES"), (376, 96, "ATTENTION")):
        drawing.box(left, top, 302, height)
        drawing.text(left + 12, top + 18, name, 11, fill=soft, **bold)
    drawing.arrow(centre, 162, 140, colour)
    drawing.text(centre + 14, 150, "3", 24, fill=ink, **bold)
    drawing.arrow(centre, 282, 262, colour)
    drawing.arrow(centre, 376, 354, colour)
    for i, token in enumerate(TOKENS):
        x = left + 60 + 58 * i
        heard = mechanism == "IC" or token == "B"
        look = {} if heard else {"stroke-dasharray": "3 3", "stroke-width": 1.5}
        drawing.path(f"M{centre} 376C{centre} 404 {x} 400 {x} 431", colour if heard else line, **look)
        drawing.path(f"M{x} 455V498", colour if heard else line, **look)
        drawing.box(x - 19, 431, 38, 24, 12, fill=colour if heard else drawing.page["paper"], stroke=line)
        pill = "¼" if mechanism == "IC" else "= B" if token == "B" else "≠ B"
        on = {"fill": drawing.on(mechanism) if heard else soft, "text-anchor": "middle", **bold}
        drawing.text(x, 447.5, pill, 12, **on)
        strong = {"stroke": drawing.page["ink"], "stroke-width": 2.5} if i == 0 else {}
        drawing.box(x - 17, 498, 34, 34, 6, **strong)
        drawing.text(x, 520, token, 16, **{"text-anchor": "middle", "font-family": "monospace", **bold})
    dashed = {"stroke-dasharray": "4 4", "stroke-width": 1.5} if mechanism == "RC" else {}
    side = line if mechanism == "RC" else colour
    drawing.path(f"M{left + 43} 515H{left - 18}V215H{left - 8}", side, **dashed)
    drawing.lines.append(f'<path d="M{left} 215l-9 -5v10z" fill="{side}"/>')
    where = f"translate({left - 24},365) rotate(-90)"
    name = {"fill": soft if mechanism == "RC" else ink, "transform": where, "text-anchor": "middle", **bold}
    drawing.text(0, 0, lane, 11, **name)
    _inside(drawing, mechanism, left)


def _inside(drawing: Drawing, mechanism: str, left: float) -> None:
    """What is written, and the units that read it."""
    colour, ink, soft = drawing.colour(mechanism), drawing.words(mechanism), drawing.page["soft"]
    line, paper, bold = drawing.page["line"], drawing.page["paper"], {"font-weight": 700}
    end = {"text-anchor": "end"}
    if mechanism == "RC":
        drawing.disc(left + 44, 218, 18, "3", colour, drawing.on("RC"), colour)
        drawing.text(left + 78, 214, "one unit is enough:", 12.5)
        drawing.text(left + 78, 231, "it need not know the token", 12.5, fill=soft)
        drawing.path(f"M{left + 20} 326H{left + 150}", line, **{"stroke-width": 1.5})
        drawing.path(f"M{left + 20} 326H{left + 98}", colour, **{"stroke-width": 5})
        for tick in range(5):
            drawing.path(f"M{left + 20 + 29 * tick} 332v6", soft, **{"stroke-width": 1.2})
        drawing.text(left + 290, 322, "3 on one direction", 12.5, fill=ink, **end, **bold)
        drawing.text(left + 290, 340, "shared by all tokens", 12, fill=soft, **end)
        return
    for i, unit in enumerate("ABCD…"):
        chosen = unit == "B"
        fill, on = (colour, drawing.on(mechanism)) if chosen else (paper, soft)
        drawing.disc(left + 36 + 40 * i, 210, 15, unit, fill, on, colour if chosen else line)
    reads = "B’s reads ¾ × 4 = 3" if mechanism == "IC" else "B’s reads B’s dial: 3"
    drawing.text(left + 14, 248, f"one unit per token; {reads}", 12, fill=soft)
    if mechanism == "IC":
        for i, token in enumerate("BBBC"):
            drawing.box(left + 16 + 31 * i, 310, 28, 28, 5, fill=paper)
            middle = {"text-anchor": "middle", "font-family": "monospace", **bold}
            drawing.text(left + 30 + 31 * i, 329, token, 14, **middle)
        drawing.text(left + 290, 322, "¾ B + ¼ C", 12.5, fill=ink, **end, **bold)
        drawing.text(left + 290, 340, "a bag, nothing compared", 12, fill=soft, **end)
        return
    for name, x, y in (("A", 62, 310), ("C", 82, 346)):
        drawing.path(f"M{left + 24} 327L{left + x} {y}", line)
        drawing.text(left + x + 6, y + 5, name, 11, fill=soft, **{"font-family": "monospace"})
    drawing.path(f"M{left + 24} 327L{left + 98} 323", colour, **{"stroke-width": 5})
    drawing.text(left + 106, 328, "B", 13, fill=ink, **{"font-family": "monospace", **bold})
    drawing.text(left + 290, 322, "3 on B’s direction", 12.5, fill=ink, **end, **bold)
    drawing.text(left + 290, 340, "each token has its own", 12, fill=soft, **end)


def transplants(mode: str) -> str:
    """The two transplants: measured in two donor sequences, added where B occurs once, answered by each mechanism."""
    drawing = Drawing(mode)
    drawing.text(24, 34, "Two transplants: give B’s position copies that are not its own", 20, **{"font-weight": 700})
    for number, (name, question, listener, copied, answers) in enumerate(TRANSPLANTS):
        _transplant(drawing, 24 + 528 * number, name, question, listener, copied, answers)
    drawing.text(24, 396, MOVED, 13, fill=drawing.page["soft"])
    return drawing.svg(1080, 416, "The two transplants: relation and inventory")


def _transplant(
    drawing: Drawing, left: float, name: str, question: str, listener: str, copied: str, answers: dict[str, str]
) -> None:
    bold, soft, ink = {"font-weight": 700}, drawing.page["soft"], drawing.page["ink"]
    drawing.text(left, 66, name.upper(), 11, fill=soft, **bold)
    drawing.text(left, 86, question, 14, **bold)
    drawing.box(left, 100, 504, 128)
    drawing.text(left + 12, 118, "MEASURE what attention writes here, twice, and subtract", 11, fill=soft, **bold)
    for top, tokens in ((130, (listener, copied, "A", copied)), (178, (listener, "C", "A", "C"))):
        _sequence(drawing, left + 36, top, tokens, [i for i, token in enumerate(tokens) if i and token == copied])
    drawing.text(left + 19, 200, "−", 20, **{"text-anchor": "middle", **bold})
    drawing.path(
        f"M{left + 214} 147H{left + 232}V195H{left + 214}M{left + 232} 171H{left + 262}", soft, **{"stroke-width": 1.5}
    )
    drawing.box(left + 262, 153, 226, 36, 18, fill=drawing.page["paper"], stroke=ink)
    drawing.text(
        left + 375, 176, f"+2 copies of {copied}, as {listener} hears them", 12.5, **{"text-anchor": "middle", **bold}
    )
    drawing.box(left, 242, 504, 132)
    drawing.text(left + 12, 262, "ADD it where B occurs once", 11, fill=soft, **bold)
    _sequence(drawing, left + 36, 276, ("B", "C", "A", "C"), [])
    drawing.path(f"M{left + 214} 293H{left + 262}", soft, **{"stroke-width": 1.5})
    drawing.box(left + 262, 262, 226, 44, 8, fill=drawing.page["paper"])
    drawing.path(f"M{left + 375} 189V253", ink, **{"stroke-width": 2})
    drawing.lines.append(f'<path d="M{left + 375} 260l5 -9h-10z" fill="{ink}"/>')
    middle = {"text-anchor": "middle"}
    drawing.text(left + 375, 281, "what attention writes for B, plus this;", 12, **middle)
    drawing.text(left + 375, 297, "then the MLP answers. It said 1; now:", 12, fill=soft, **middle)
    for i, (mechanism, answer) in enumerate(answers.items()):
        x, moved = left + 36 + 152 * i, answer == "3"
        drawing.box(x, 324, 138, 36, 6, fill=drawing.colour(mechanism) if moved else drawing.page["paper"])
        fill = drawing.on(mechanism) if moved else drawing.words(mechanism)
        drawing.text(x + 69, 347, f"{mechanism} says {answer}", 14, fill=fill, **middle, **bold)


def _sequence(drawing: Drawing, left: float, top: float, tokens: tuple[str, ...], copies: list[int]) -> None:
    """Tiles; the first is the position that is looked at, and copies are shaded."""
    for i, token in enumerate(tokens):
        look: dict[str, object] = {"fill": drawing.page["line"] if i in copies else drawing.page["paper"]}
        look |= {"stroke": drawing.page["ink"], "stroke-width": 2.5} if i == 0 else {}
        drawing.box(left + 44 * i, top, 34, 34, 6, **look)
        drawing.text(
            left + 44 * i + 17,
            top + 22,
            token,
            16,
            **{"text-anchor": "middle", "font-family": "monospace", "font-weight": 700},
        )


def verdicts() -> Iterator[tuple[str, Figure]]:
    from counting_interp.models import CountingTransformer
    from counting_interp.models.constructions import construct

    models = {
        "RC": CountingTransformer.load("bos+sftm-d45-p2"),
        "IC": CountingTransformer.load("lin+sftm-d64-p64"),
        "gated": construct("ic-dot-compact"),
    }
    for name, model in models.items():
        (figure,) = figures_of(model, ["transplants"])
        yield f"verdict-{name}.svg", figure


def plane() -> Iterator[tuple[str, Figure]]:
    """Every solved run of Fig. 1's table."""
    from counting_interp.data import runs as table_of
    from counting_interp.interp.figures.verdict import PlanePoint, plane_figure
    from counting_interp.interp.sweep.statistics import verdict_of
    from counting_interp.interp.sweep.table import read_runs

    points = []
    for run in read_runs(table_of("fig1")):
        verdict = verdict_of(run)
        if verdict is not None and verdict.mechanism != "unsolved":
            name = f"{run.cell.model}, d = {run.cell.d}, p = {run.cell.p}, run {run.run}"
            points.append(PlanePoint(name, verdict.numbers["RC"], verdict.numbers["IC"], run.cell.model))
    about = f"T = 32, L = 10; {len(points)} runs of Fig. 1 with at least 95 % of positions right"
    yield "plane.svg", plane_figure(points, title="Where trained models lie", about=about)


def cue_conflict() -> Iterator[tuple[str, Figure]]:
    from counting_interp.models import CountingTransformer

    for label, name in (("RC", "bos+sftm-d45-p2"), ("IC", "lin+sftm-d64-p64")):
        (figure,) = figures_of(CountingTransformer.load(name), ["cue-conflict"])
        yield f"cue-conflict-{label}.png", figure


def of_map(kind: str) -> Iterator[tuple[str, Figure]]:
    from counting_interp.data import runs as table_of
    from counting_interp.interp.figures.phase import map_figures, sweep_figures
    from counting_interp.interp.sweep.table import read_runs

    runs = read_runs(table_of("fig1"))
    figures = map_figures(runs, ["mechanism"]) if kind == "map" else sweep_figures(runs, ["mean"])
    yield f"{kind}.png", next(figures)


DIAGRAMS = {"block": block, "transplants": transplants}  # light and dark
PICTURES = {
    "verdict": verdicts,
    "plane": plane,
    "cue-conflict": cue_conflict,
    "map": lambda: of_map("map"),
    "phase-mean": lambda: of_map("phase-mean"),
}


def main(names: list[str]) -> None:
    from counting_interp.interp.pages.export import render

    INLINE.write_text(transplants("inline"), encoding="utf-8")
    for name in names or [*DIAGRAMS, *PICTURES]:
        if name in DIAGRAMS:
            for mode in ("light", "dark"):
                (HERE / f"{name}-{mode}.svg").write_text(DIAGRAMS[name](mode), encoding="utf-8")
            continue
        for file, figure in PICTURES[name]():
            ending = file.rsplit(".")[-1]
            images, missing = render([figure], [ending])
            assert missing is None, missing
            (HERE / file).write_bytes(images[figure.name, ending])


if __name__ == "__main__":
    main(sys.argv[1:])
