"""The protocol: JSON without NaN, CSV with a header, HTML that cannot be steered, shares of variance."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from counting_interp.probes.result import Result, Scalar, show, variance_share
from counting_interp.util.errors import InterpError
from tests.helpers import assert_close


@dataclass(frozen=True, eq=False)
class Inner:
    values: Tensor


@dataclass(frozen=True, eq=False)
class Toy(Result):
    probe: ClassVar[str] = "toy"
    name: str
    inner: Inner

    @property
    def summary(self) -> dict[str, Scalar]:
        return {"name": self.name, "worst_case": float("nan"), "holds": True}

    def rows(self) -> list[dict[str, Scalar]]:
        return [{"name": self.name, "value": float(value)} for value in self.inner.values]


TOY = Toy('</script><img src=x onerror=alert(1)>, "quoted"', Inner(torch.tensor([1.0, torch.nan, torch.inf])))


def test_json_has_no_nan():
    text = json.dumps(TOY.to_dict(), allow_nan=False)
    assert json.loads(text) == {
        "probe": "toy",
        "summary": {"name": TOY.name, "worst_case": None, "holds": True},
        "data": {"name": TOY.name, "inner": {"values": [1.0, None, None]}},
    }


def test_csv_quotes_and_is_faithful():
    import csv
    import io

    assert list(csv.reader(io.StringIO(TOY.to_csv()))) == [
        ["name", "value"], [TOY.name, "1.0"], [TOY.name, "nan"], [TOY.name, "inf"],
    ]  # fmt: skip


def test_shown_at_a_prompt_it_is_short_and_has_no_tensors():
    assert repr(TOY).startswith("<toy: name </script>")
    assert "worst case nan, holds yes>" in repr(TOY)
    assert str(TOY).splitlines()[0] == "toy"
    assert len(repr(replace(TOY, name="long " * 1000))) < 200


def test_it_is_a_frame_and_says_where_there_is_no_figure():
    assert TOY.to_frame()["value"].iloc[0] == 1.0
    with pytest.raises(InterpError, match="no figure of toy"):
        TOY.plot()


def test_html_escapes_what_it_shows():
    html = TOY._repr_html_()
    assert "<img" not in html
    assert "&lt;/script&gt;" in html
    assert "worst case" in html


def test_results_are_frozen():
    with pytest.raises(FrozenInstanceError):
        TOY.name = "other"


def test_scalars_for_people():
    assert [show(value) for value in (None, True, False, 3, 0.123456, 1e-9, "B C")] == [
        "–", "yes", "no", "3", "0.1235", "1e-09", "B C",
    ]  # fmt: skip


def test_variance_share_is_between_over_total():
    groups = torch.tensor([0, 0, 1, 1])
    assert_close(variance_share(torch.tensor([1.0, 1.0, 3.0, 3.0]), groups), 1.0)
    assert_close(variance_share(torch.tensor([1.0, 3.0, 1.0, 3.0]), groups), 0.0)
    assert_close(variance_share(torch.tensor([0.0, 2.0, 2.0, 4.0]), groups), 0.5)
    assert variance_share(torch.full((4,), 0.1), groups) is None
    assert variance_share(torch.tensor([0.1, 0.1 + 1e-8, 0.1, 0.1]), groups) is None
    assert variance_share(torch.zeros(0), groups[:0]) is None
