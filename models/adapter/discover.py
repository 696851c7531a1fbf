"""Where a model mixes its positions, found by trying.

Take two sequences that share the token at the position that answers, and run the first. A set of points is
**complete** if, with their values at that position from the run of the second, the answer becomes the second's. Nothing
else then brings anything from other positions. The mixers' outputs are complete; so is all that comes later, up to the
whole residual stream. A set **carries the token** if it turns the answer into that of a sequence with *another* token
at the position as well, and everything computed after it too: then it lies behind the residual, and is too late.

So the search takes the first complete points and follows them through output projections, dropout, enclosing modules
and norms. It stops before a point that is no linear image (or norm) of the first, or that carries the token. No names
are needed, and given names are checked in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from counting_interp.models.adapter.points import SOFTMAX, Net, Point

LAYER = "{layer}"
TOLERANCE = 0.01  # of the difference between two sequences' answers; rounding is far below, another answer far above


@dataclass(frozen=True, eq=False)
class Trial:
    """Three batches of inputs of one size, by whose answers points are found and checked.

    Attributes:
        inputs: here, there, elsewhere. The first two share the token (or the question) at the positions that listen,
            and differ at others. The third differs from the first at all.
        listeners: the positions of the input at which values are set.
        answer: from the module's output to the answers' logits at the listening position.
        size: rows and positions.
    """

    inputs: tuple[Any, Any, Any]
    listeners: Tensor
    answer: Callable[[Any], Tensor]
    size: tuple[int, int]

    @property
    def here(self) -> Any:
        return self.inputs[0]


@dataclass(frozen=True, eq=False)
class Mixers:
    """The mixers' outputs, block by block.

    Attributes:
        template: their name with `{layer}` for the number of the block.
        points: one for each block, in the order in which they are computed.
        widths: of each.
    """

    template: str
    points: tuple[Point, ...]
    widths: tuple[int, ...]


class Search:
    """Tries sets of points on one trial. See the module's text for what is looked for."""

    def __init__(self, net: Net, trial: Trial) -> None:
        self.net, self.trial = net, trial
        self.points = [point for point in net.survey(trial.here, trial.size) if point.name != SOFTMAX]
        self.here, self.there, self.elsewhere = (self._record(inputs) for inputs in trial.inputs)
        self.order = list(self.here[0])  # points in the order in which they are passed

    @property
    def depends_on_others(self) -> bool:
        """Whether answers depend on the other positions at all."""
        here, there = self.here[1], self.there[1]
        return bool((here - there).abs().max() > 1e-5 * there.abs().max().clamp_min(1e-30))

    def groups(self) -> dict[str, tuple[Point, ...]]:
        """Sets of points that may be the same part of every block: names that differ in one number, or calls."""
        groups: dict[str, list[Point]] = {}
        for point in self.order:
            for template in _templates(point.name):
                groups.setdefault(template, []).append(point)
        several = {name: points for name, points in groups.items() if LAYER not in name or len(points) > 1}
        return {name: tuple(points) for name, points in {**several, **_alone(groups, several)}.items()}

    def complete(self, points: Sequence[Point]) -> bool:
        """Whether everything that reaches the listeners from other positions passes these points."""
        if not any(self._differ(point) for point in points):
            return False
        _, answer = self._record(self.trial.here, self._set(points, self.there[0]), keep=())
        return _reached(answer, self.here[1], self.there[1])

    def carry_the_token(self, points: Sequence[Point]) -> bool:
        """Whether all that follows, the answer included, depends on the values at these points alone."""
        values, answer = self._record(self.trial.here, self._set(points, self.elsewhere[0]))
        later = self.order[max(self.order.index(point) for point in points) + 1 :]
        same = (_reached(values[point], self.here[0][point], self.elsewhere[0][point]) for point in later)
        return _reached(answer, self.here[1], self.elsewhere[1]) and all(same)

    def linear(self, first: Point, later: Point) -> bool:
        """Whether `later` is a linear image (with a constant) of `first`, at the listeners."""
        ends = self.here[0][first], self.there[0][first]
        images = []
        for value in (*ends, (ends[0] + ends[1]) / 2):
            values, _ = self._record(self.trial.here, self._set([first], {first: value}))
            images.append(values[later])
        return _reached((images[0] + images[1]) / 2, images[0], images[2])

    def mixers(self) -> tuple[Mixers | None, list[str]]:
        """The mixers' outputs, or None; and the names of complete points that come later than they should."""
        groups = self.groups()
        complete = [name for name, points in groups.items() if self.complete(points)]
        complete.sort(key=lambda name: self.order.index(groups[name][-1]))
        if not complete:
            return None, []
        first = groups[complete[0]]
        images = [
            name
            for name in complete
            if name == complete[0] or (len(groups[name]) == len(first) and self._follows(first[-1], groups[name][-1]))
        ]
        around = [name for name in images if not self.carry_the_token(groups[name])]
        if not around:
            return None, images
        equal = [name for name in around if self._equal(groups[name][-1], groups[around[-1]][-1])]
        plainest = min(equal, key=lambda name: name.count("."))  # `h.{layer}.attn` rather than its projection
        return self._mixers(plainest, groups[plainest]), complete

    def named(self, names: Sequence[str]) -> tuple[Mixers | None, str]:
        """The points of these names, or what is wrong with them."""
        modules = matching(self.net, names)
        if not modules:
            return None, no_part(self.net, names)
        surveyed = self.net.survey(self.trial.here, self.trial.size, modules)
        points = [point for point in surveyed if point.name in modules]
        if not points:
            return None, f"mixer: {names[0]} is not reached, or gives no tensor with rows and positions"
        self.points = list(dict.fromkeys([*self.points, *points]))
        self.here, self.there, self.elsewhere = (self._record(inputs) for inputs in self.trial.inputs)
        self.order = list(self.here[0])
        if not self.complete(points):
            return None, (
                f"mixer: with the outputs of {', '.join(names)} as on another sequence, the answer is not that "
                "sequence's: something else reaches a position from the others as well"
            )
        earlier, _ = self.mixers() if self.carry_the_token(points) else (None, [])
        if earlier is not None:
            return None, (
                f"mixer: {', '.join(names)} comes after the residual stream has joined, so it holds more than the "
                f"mixer's output; that is {earlier.template}"
            )
        return self._mixers(" and ".join(names), points), ""

    def _mixers(self, template: str, points: Sequence[Point]) -> Mixers:
        return Mixers(template, tuple(points), tuple(self.here[0][point].shape[-1] for point in points))

    def _follows(self, first: Point, later: Point) -> bool:
        """A linear image; or a norm of its own, after which the mixer's output joins the residual stream."""
        return "Norm" in type(self.net.parts.get(later.name)).__name__ or self.linear(first, later)

    def _equal(self, first: Point, second: Point) -> bool:
        values = self.here[0]
        return values[first].shape == values[second].shape and torch.equal(values[first], values[second])

    def _differ(self, point: Point) -> bool:
        return not torch.equal(self.here[0][point], self.there[0][point])

    def _set(self, points: Sequence[Point], values: dict[Point, Tensor]) -> list[tuple[Point, Callable[..., Any]]]:
        def setting(point: Point) -> Callable[..., Tensor]:
            def on_value(value: Tensor, hook: Any) -> Tensor:
                changed = value.clone()
                changed[:, self.trial.listeners] = values[point].reshape(changed[:, self.trial.listeners].shape)
                return changed

            return on_value

        return [(point, setting(point)) for point in points]

    def _record(
        self, inputs: Any, hooks: Sequence[Any] = (), keep: Sequence[Point] | None = None
    ) -> tuple[dict[Point, Tensor], Tensor]:
        values: dict[Point, Tensor] = {}

        def keeping(point: Point) -> Callable[..., None]:
            def on_value(value: Tensor, hook: Any) -> None:
                values[point] = value.flatten(2)[:, self.trial.listeners].clone()

            return on_value

        kept = [(point, keeping(point)) for point in (self.points if keep is None else keep)]
        output = self.net.run(inputs, [*hooks, *kept], self.trial.size)
        return values, self.trial.answer(output)


def _reached(value: Tensor, start: Tensor, goal: Tensor) -> bool:
    """Whether `value` is `goal`, measured by how far that is from `start`."""
    floor = 1e-5 * goal.abs().max()
    return bool((value - goal).abs().max() <= TOLERANCE * (start - goal).abs().max() + floor)


def _templates(name: str) -> list[str]:
    """`h.0.attn` -> `h.{layer}.attn`; a name without numbers stands for itself."""
    words = name.split(".")
    numbered = [i for i, word in enumerate(words) if word.isdigit()]
    return [".".join([*words[:i], LAYER, *words[i + 1 :]]) for i in numbered] or [name]


def _alone(groups: dict[str, list[Point]], several: dict[str, list[Point]]) -> dict[str, list[Point]]:
    """Groups of one block, unless a point of theirs is in a larger group."""
    taken = {point for name, points in several.items() if LAYER in name for point in points}
    alone = {name: points for name, points in groups.items() if name not in several and points[0] not in taken}
    return {points[0].name: points for points in alone.values()}


def matching(net: Net, names: Sequence[str]) -> list[str]:
    """The parts of a model that have one of these names, with a number for `{layer}`."""
    templates = [re.compile(r"\d+".join(map(re.escape, name.split(LAYER)))) for name in names]
    return [part for part in net.parts if any(template.fullmatch(part) for template in templates)]


def no_part(net: Net, names: Sequence[str]) -> str:
    near = get_close_matches(names[0].replace(LAYER, "0"), list(net.parts), 3)
    like = f"; the nearest are {', '.join(near)}" if near else ""
    return f"mixer: the module has no part {' or '.join(map(repr, names))}{like}"
