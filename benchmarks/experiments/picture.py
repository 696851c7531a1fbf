"""The picture of docs/language-models.md, from its table: shares by window of blocks, a line for each seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from counting_interp.interp.figures.style import MECHANISMS

COLOURS = {name.lower(): MECHANISMS[name].colour for name in ("RC", "gated", "IC")}
NAMES = {"rc": "RC", "gated": "gated", "ic": "IC", "moves": "moved by own"}
PANELS = (
    ("stories15M", "pretrained", "running", "stories15M, taught"),
    ("stories15M", "random", "running", "the same from random weights"),
    ("smollm2", "pretrained", "running", "SmolLM2-135M, taught"),
    ("stories15M", "pretrained", "question", "stories15M, asked at the end"),
)
TITLE = "How much of the count each window of blocks delivers"
WIDTH, HEIGHT, GAP, LEFT, TOP = 205, 170, 34, 44, 88  # of a panel, between panels, around them
Row = Mapping[str, str]


def picture(rows: Sequence[Row]) -> str:
    """An SVG with a panel for each of PANELS that has runs."""
    shown = [(title, chosen) for *wanted, title in PANELS if (chosen := _windows(rows, *wanted))]
    width = LEFT + max(2, len(shown)) * (WIDTH + GAP)  # the legend takes the width of two
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 44}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="13" y="22" font-size="16" font-weight="bold">{TITLE}</text>',
        *_legend(),
        f'<text transform="translate(13 {TOP + HEIGHT / 2}) rotate(-90)" text-anchor="middle">share of count</text>',
    ]
    for number, (title, chosen) in enumerate(shown):
        parts.append(f'<g transform="translate({LEFT + number * (WIDTH + GAP)} {TOP})">')
        parts += [*_panel(title, chosen), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _windows(rows: Sequence[Row], model: str, weights: str, form: str) -> dict[str, list[Row]]:
    """The windows of each seed, among lessons with a start token and trained embeddings."""
    seeds: dict[str, list[Row]] = {}
    for row in rows:
        plain = row["start_token"] == "1" and row["embeddings"] == "taught" and row["measure"] == "window"
        if plain and (row["model"], row["weights"], row["form"]) == (model, weights, form):
            seeds.setdefault(row["seed"], []).append(row)
    return seeds


def _panel(title: str, seeds: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    last = max(int(row["last"]) for windows in seeds.values() for row in windows)
    runs = f"{len(seeds)} runs" if len(seeds) > 1 else "1 run"
    yield f'<text x="{WIDTH / 2}" y="-9" text-anchor="middle">{title} ({runs})</text>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    for share in (0, 0.5, 1):
        y = HEIGHT * (1 - share)
        yield f'<line x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="-5" y="{y + 4}" text-anchor="end">{share}</text>'
    for block in sorted({1, *range(last // 6, last + 1, max(1, last // 6))}):
        yield f'<text x="{_x(block, last):.1f}" y="{HEIGHT + 15}" text-anchor="middle">{block}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT + 33}" text-anchor="middle">window: blocks 1 to ...</text>'
    for windows in seeds.values():
        moves = [(int(row["last"]), (float(row["moves_up"]) + float(row["moves_down"])) / 2) for row in windows]
        yield _line(moves, last, "#888", 'stroke-dasharray="3 3"')
        for name, colour in COLOURS.items():
            values = [(int(row["last"]), float(row[name])) for row in windows if row[name]]
            yield _line(values, last, colour, 'stroke-width="2" stroke-opacity="0.75"')


def _line(points: Sequence[tuple[int, float]], last: int, colour: str, look: str) -> str:
    inside = [(_x(block, last), HEIGHT * (1 - min(max(value, 0.0), 1.0))) for block, value in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in inside)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in inside)
    return f'<g fill="{colour}" stroke="{colour}"><polyline points="{path}" fill="none" {look}/>{dots}</g>'


def _x(block: int, last: int) -> float:
    return 10 + (WIDTH - 20) * (block - 1) / (last - 1)


def _legend() -> Iterator[str]:
    for number, (key, name) in enumerate(NAMES.items()):
        x, dash = LEFT + 110 * number, 'stroke-dasharray="3 3"' if key == "moves" else 'stroke-width="3"'
        colour = COLOURS.get(key, "#888")
        yield f'<line x1="{x}" x2="{x + 24}" y1="44" y2="44" stroke="{colour}" {dash}/>'
        yield f'<text x="{x + 30}" y="48">{name}</text>'
