"""How accurate a model of a given size can be: two upper envelopes of (parameters, accuracy) points."""

from __future__ import annotations

import math
from collections.abc import Iterable

Point = tuple[int, float]


def running_best(points: Iterable[Point]) -> list[Point]:
    """The best accuracy with at most so many parameters: the points where it rises, and the largest size. This is what
    the published figure draws, under the name of a convex hull."""
    best: list[Point] = []
    size = None
    for size, accuracy in sorted(points):
        if not best or accuracy > best[-1][1]:
            best = [point for point in best if point[0] < size]
            best.append((size, accuracy))
    if size is not None and best[-1][0] != size:
        best.append((size, best[-1][1]))
    return best


def upper_hull(points: Iterable[Point]) -> list[Point]:
    """The upper convex hull where sizes are logarithmic, as on the figure's axis, up to the highest point."""
    hull: list[Point] = []
    for point in sorted(set(points)):
        while hull and hull[-1][0] == point[0]:
            hull.pop()  # of equal sizes, sorted by accuracy, the last is the highest
        while len(hull) > 1 and _slope(hull[-2], point) >= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    top = max((accuracy for _, accuracy in hull), default=0.0)
    highest = next((place for place, point in enumerate(hull) if point[1] == top), -1)
    return hull[: highest + 1]


def _slope(a: Point, b: Point) -> float:
    return (b[1] - a[1]) / (math.log(b[0]) - math.log(a[0]))
