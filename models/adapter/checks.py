"""The points that a model may have besides its mixers' outputs, and whether they are what they are taken for.

Each is looked for by the given name and by TransformerLens' name; patterns and pre-activations also by trying. A point
that fails its check is left out, or, if it was named, is a problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from counting_interp.models.adapter.discover import LAYER, Mixers, Search, Trial, matching, no_part
from counting_interp.models.adapter.points import (
    AS_IT_IS,
    FUSED,
    GATHERED,
    INPUT,
    PARTS,
    PATTERN,
    QUERIES,
    SCORES,
    SOFTMAX,
    VALUES,
    Net,
    OpenedAttention,
    Point,
)

RESIDUAL, MIXED, HIDDEN = "hook_resid_pre", "hook_resid_mid", "mlp.hook_pre"
NAMED = (RESIDUAL, QUERIES, VALUES, SCORES, PATTERN, GATHERED, HIDDEN)
TOLERANCE = 1e-3  # of the largest number: far above rounding in single precision
Points = dict[str, Point]


def check_named(net: Net, hooks: Mapping[str, str], mixers: Sequence[str]) -> list[str]:
    """What is wrong with the names themselves: points that there are not, and modules that the model does not have."""
    unknown = [
        f"hooks: there is no point {name!r}; there are {', '.join(NAMED)}" for name in hooks if name not in NAMED
    ]
    absent = [] if not mixers or matching(net, mixers) else [no_part(net, mixers)]
    return unknown + absent + _named(net, 0, hooks)[1]


def extra_points(search: Search, mixers: Mixers, hooks: Mapping[str, str]) -> tuple[Points, list[str]]:
    """Points by our names, and what is wrong with those that were named."""
    net, trial = search.net, search.trial
    checked: Points = {}
    problems: list[str] = []
    for layer, mixer in enumerate(mixers.points):
        block = f"blocks.{layer}."
        named, missing = _named(net, layer, hooks)
        problems += missing
        opened = _opened(net, trial, mixers, layer) if PATTERN not in named else {}
        hidden = hidden_point(search, mixers, layer) if HIDDEN not in named else None
        guessed = {RESIDUAL: _block_input(net, mixer), HIDDEN: hidden}
        points = {**opened, **{name: point for name, point in guessed.items() if point}, **named, MIXED: mixer}
        wrong = _wrong(net, trial, points, mixer)
        problems += [f"block {layer}: {why}" for name, why in wrong.items() if name in hooks]
        checked |= {block + name: point for name, point in points.items() if name not in wrong}
    return checked, list(dict.fromkeys(problems))


def hidden_point(search: Search, mixers: Mixers, layer: int) -> Point | None:
    """The first linear map of a block that is computed after its mixer: what its feed-forward layer's units read."""
    mixer, order = mixers.points[layer], search.order
    block = _block(mixer)
    after = order[order.index(mixer) + 1 :]
    following = mixers.points[layer + 1] if layer + 1 < len(mixers.points) else None
    stop = after.index(following) if following in after else len(after)
    for point in after[:stop]:
        weight = getattr(search.net.parts.get(point.name), "weight", None)
        inside = point.name.startswith(f"{block}." if block else "") and not mixer.name.startswith(point.name)
        if inside and isinstance(weight, Tensor) and weight.ndim == 2 and point is not _last_linear(search):
            return point
    return None


def _block_input(net: Net, mixer: Point) -> Point | None:
    """What the module reads that holds a block: the residual stream before it."""
    block = _block(mixer)
    return Point(block, mixer.call, INPUT, mixer.layout) if block in net.parts else None


def _block(mixer: Point) -> str:
    """`h.0.attn` is in the block `h.0`."""
    words = mixer.name.split(".")
    numbered = [i for i, word in enumerate(words[:-1]) if word.isdigit()]
    return ".".join(words[: numbered[-1] + 1]) if numbered else ".".join(words[:-1])


def _last_linear(search: Search) -> Point | None:
    """The unembedding, which writes the answer."""
    linear = [point for point in search.order if getattr(search.net.parts.get(point.name), "weight", None) is not None]
    return linear[-1] if linear and search.net.parts[linear[-1].name].weight.ndim == 2 else None


def _named(net: Net, layer: int, hooks: Mapping[str, str]) -> tuple[Points, list[str]]:
    points: Points = {}
    problems = []
    for name in NAMED:
        given = hooks.get(name)
        where = (given or f"blocks.{LAYER}.{name}").replace(LAYER, str(layer))
        if where in net.parts:
            points[name] = Point(where, layout=AS_IT_IS)
        elif given is not None:
            near = ", ".join(get_close_matches(where, net.parts, 3)) or "none like it"
            problems.append(f"hooks: the module has no part {where!r} for {name}; it has {near}")
    return points, problems


def _opened(net: Net, trial: Trial, mixers: Mixers, layer: int) -> Points:
    """Attention that has no module, where a block has exactly one."""
    mixer = mixers.points[layer]
    if mixer.name == FUSED:
        return {name: Point(FUSED, mixer.call, name) for name in PARTS[FUSED]}
    marks: list[Counter[str]] = [Counter()]
    with OpenedAttention([], *trial.size) as opened:
        marking = [(point, lambda value, hook: marks.append(Counter(opened.calls))) for point in mixers.points]
        net.run(trial.here, marking, trial.size)
    for name in (FUSED, SOFTMAX):
        before, after = marks[layer][name], marks[layer + 1][name]
        if after == before + 1:
            return {part: Point(name, before, part) for part in PARTS[name]}
    return {}


def _wrong(net: Net, trial: Trial, points: Points, mixer: Point) -> dict[str, str]:
    """Which of a block's points are not what they should be, and why."""
    values, plain = _values(net, trial, points)
    wrong = {
        name: f"the point {point} for {name} is not reached, or gives no tensor"
        for name, point in points.items()
        if name not in values
    }
    pattern, rows, positions = values.get(PATTERN), *trial.size
    if pattern is not None and not (pattern.ndim == 4 and pattern.shape[::2] == (rows, positions)):
        wrong[PATTERN] = f"{points[PATTERN]} has shape {list(pattern.shape)}, a pattern [row, head, query, key]"
    elif pattern is not None:
        zeroed, _ = _values(net, trial, points, {PATTERN: torch.zeros_like(pattern)})
        if torch.equal(zeroed[MIXED], values[MIXED]):
            wrong[PATTERN] = f"the mixer's output stays as it is when {points[PATTERN]} is written"
        if {VALUES, GATHERED} <= values.keys() and not _is_product(pattern, values[VALUES], values[GATHERED]):
            wrong[VALUES] = wrong[GATHERED] = (
                f"{points[GATHERED]} {list(values[GATHERED].shape)} is not {points[PATTERN]} {list(pattern.shape)} "
                f"times {points[VALUES]} {list(values[VALUES].shape)}; shapes must be [row, position, head, width], "
                "and [row, head, query, key] for the pattern"
            )
    if PATTERN in wrong:
        wrong |= {name: wrong[PATTERN] for name in (SCORES, VALUES, GATHERED) if name in points}
    if SCORES in values and PATTERN not in wrong and not _scores_heard(net, trial, points, values):
        wrong[SCORES] = f"the pattern does not follow when {points[SCORES]} is written"
    if QUERIES in values and not _asks_alone(net, trial, points, values):
        wrong[QUERIES] = f"{points[QUERIES]} at a position does not change the mixer's output there, and there alone"
    if HIDDEN in values:
        _, switched = _values(net, trial, points, {HIDDEN: values[HIDDEN].abs() + 1})
        if torch.equal(switched, plain):
            wrong[HIDDEN] = f"the answers do not change with {points[HIDDEN]}"
    return wrong


def _scores_heard(net: Net, trial: Trial, points: Points, values: dict[str, Tensor]) -> bool:
    if PATTERN not in values:
        return False
    scores = values[SCORES]
    tilted, _ = _values(net, trial, points, {SCORES: scores + torch.arange(scores.shape[-1]).to(scores)})
    return not torch.equal(tilted[PATTERN], values[PATTERN])


def _asks_alone(net: Net, trial: Trial, points: Points, values: dict[str, Tensor]) -> bool:
    """A query acts at its own position only, which a key or a value does not."""
    queries, mixed = values[QUERIES].clone(), values[MIXED]
    if queries.ndim < 3 or queries.shape[:2] != mixed.shape[:2]:
        return False
    queries[:, -1] = queries[:, -1].roll(1, 0)  # those of another row
    changed = (_values(net, trial, points, {QUERIES: queries})[0][MIXED] - mixed).abs()
    here, elsewhere = changed[:, -1].max(), changed[:, :-1].max()
    return bool(here > 0 and elsewhere <= TOLERANCE * here)


def _is_product(pattern: Tensor, value: Tensor, gathered: Tensor) -> bool:
    if value.ndim != 4 or value.shape != gathered.shape or pattern.shape[1] != value.shape[2]:
        return False
    product = torch.einsum("rhqk,rkhd->rqhd", pattern, value)
    return bool((product - gathered).abs().max() <= TOLERANCE * gathered.abs().max().clamp_min(1e-6))


def _values(
    net: Net, trial: Trial, points: Points, written: Mapping[str, Tensor] | None = None
) -> tuple[dict[str, Tensor], Tensor]:
    """What passes the points, with some of them written; and the answer."""
    seen: dict[str, Tensor] = {}

    def at(name: str) -> Any:
        def on_value(value: Any, hook: Any) -> Tensor | None:
            if not isinstance(value, Tensor):
                return None
            new = (written or {}).get(name)
            seen[name] = (value if new is None else new).clone()
            return new

        return on_value

    output = net.run(trial.here, [(point, at(name)) for name, point in points.items()], trial.size)
    return seen, trial.answer(output)
