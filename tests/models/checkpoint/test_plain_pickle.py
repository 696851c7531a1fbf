"""Our pickle reader agrees with torch.load(weights_only=True) on whatever torch.save writes of plain values."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_interp.models.checkpoint import plain_pickle, pt
from counting_interp.models.checkpoint.safetensors import raw
from counting_interp.util.errors import Refused
from tests.models.checkpoint.craft import optimizer_state

DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64"


def read(value: Any, protocol: int = 2) -> tuple[Any, Any]:
    """What torch reads, and what we read, of the same bytes. Its safe reader knows protocol 2 only; ours all."""
    buffer = io.BytesIO()
    torch.save(value, buffer, pickle_protocol=protocol)
    records = pt._records(buffer.getvalue())
    storages = pt.Storages(records, room=2**20)
    ours = _with_tensors(plain_pickle.load(bytes(records["data.pkl"])), storages)
    return torch.load(io.BytesIO(buffer.getvalue()), weights_only=protocol == 2), ours


def _with_tensors(value: Any, storages: pt.Storages) -> Any:
    if isinstance(value, dict):
        return {key: _with_tensors(item, storages) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_tensors(item, storages) for item in value]
    return storages.tensor(value) if isinstance(value, plain_pickle.StoredTensor) else value


def assert_same(theirs: Any, ours: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert raw(ours).tobytes() == raw(theirs).tobytes()
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_same(theirs[key], ours[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(theirs, ours, strict=True):
            assert_same(a, b)
    else:
        assert (type(ours), ours) == (type(theirs), theirs)


@pytest.mark.parametrize("dtype", DTYPES.split())
@pytest.mark.parametrize("shape", [(1,), (2, 3), (2, 1, 3), (1, 1), (4, 1)])
def test_tensors_of_every_kind(dtype, shape):
    numbers = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    assert_same(*read({"a": numbers, "again": numbers, "turned": numbers.mT if numbers.ndim > 1 else numbers}))


def test_state_dicts_parameters_and_optimizers():
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    whole = {"model": layer.state_dict(), "optimizer": optimizer_state(), "p": torch.nn.Parameter(torch.ones(2))}
    assert_same(*read(whole))
    assert_same(*read(OrderedDict(whole), protocol=4))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.tuples(inner)
    ),
    max_leaves=20,
)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.sampled_from([2, 3, 4, 5]))
def test_plain_values(value, protocol):
    assert_same(*read(value, protocol))


def test_globals_are_compared_and_never_looked_up(monkeypatch):
    import builtins

    monkeypatch.setattr(builtins, "__import__", None)
    with pytest.raises(Refused, match="names code to run"):
        plain_pickle.load(b"\x80\x02cantigravity\nfly\n)R.")
