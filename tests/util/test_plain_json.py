"""JSON from whatever a probe or a trainer hands over: never NaN, never a guess."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from counting_interp.util.plain_json import plain, to_json


@dataclass(frozen=True)
class Point:
    x: float
    y: tuple[int, ...]


def test_everything_becomes_plain():
    assert plain({1: (float("inf"), [torch.tensor(2)])}) == {"1": [None, [2]]}
    assert plain(Point(np.float64("nan"), (1, 2))) == {"x": None, "y": [1, 2]}
    assert plain([np.int32(3), np.array([[1.5, np.inf]]), torch.tensor([True])]) == [3, [[1.5, None]], [True]]
    assert type(plain(np.float64(0.5))) is float


def test_the_text_never_holds_what_json_does_not_know():
    assert json.loads(to_json([float("nan"), -float("inf"), 1e308]), parse_constant=pytest.fail) == [None, None, 1e308]


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, Point])
def test_what_does_not_fit_is_not_guessed(value):
    with pytest.raises(ValueError, match="JSON-like"):
        plain({"deep": [value]})
