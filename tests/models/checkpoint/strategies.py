"""Hypothesis strategies for files: over the bytes of both formats, and over the schema of the metadata.

Files of the second kind carry a hash that holds: they get past everything but the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.checkpoint import TrainingState
from counting_interp.models.checkpoint.contents import FORMAT, Metadata
from counting_interp.models.checkpoint.safetensors import DTYPES
from counting_interp.models.task import SAMPLERS
from counting_interp.models.training import Recipe
from tests.models.checkpoint.craft import NASTY, header, ours, with_pickle

CONFIG = CountingConfig.parse("bos", T=5, L=3, d=3, p=2)
RECIPE = Recipe(epochs=2, sequences=40, batch_size=20, validation=10)
FORMS = st.sampled_from(["pt", "safetensors"])

texts = st.text(max_size=6) | st.sampled_from([NASTY[:80], *SAMPLERS])
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)

# --- metadata ------------------------------------------------------------------------------------------------------

_natural, _share = st.integers(0, 2**63), st.floats(0, 1)
_accuracy = st.fixed_dictionaries(
    {"value": _share}, optional={"n_sequences": _natural, "sampler": texts, "epoch": _natural}
)
_shares = st.lists(_share, max_size=3)
_recipe = st.dictionaries(st.sampled_from([*RECIPE.to_dict(), "more"]), values, max_size=2).map(
    lambda change: RECIPE.to_dict() | change
)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "versions": st.dictionaries(texts, texts, max_size=2),
    "task": st.fixed_dictionaries({}, optional={"sampler": texts, "T": _natural, "L": _natural, "more": values}),
    "training": st.just(RECIPE.to_dict()) | _recipe,
    "seed": _natural,
    "step": _natural,
    "accuracy": _accuracy,
    "best_accuracy": _accuracy,
    "history": st.fixed_dictionaries(
        {
            "epochs": st.lists(_natural, max_size=3),
            "losses": st.lists(st.none() | st.floats(-1e9, 1e9), max_size=3),
            "accuracies": _shares,
        }
    ),
    "mechanism": st.fixed_dictionaries({}, optional={"label": texts, "provenance": texts, "more": values}),
    "selection": st.fixed_dictionaries({"best_of_seeds": st.lists(_natural, max_size=3), "accuracies": _shares}),
    "assumed": st.lists(texts, max_size=3),
    "layout": texts,
    "mine": values,
}
FIELDS = sorted({*Metadata.__struct_fields__, "mine"} - {"sha256", "rest_sha256", "format_version"})
right_metadata = st.fixed_dictionaries({}, optional=RIGHT)
any_metadata = st.tuples(right_metadata, st.dictionaries(st.sampled_from(FIELDS), values, max_size=2)).map(
    lambda both: both[0] | both[1]
)

_arrays = st.builds(
    lambda shape, dtype, number: np.full(shape, number, dtype=dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(["float64", "float32", "int64", "uint8", "bool"]),
    st.sampled_from([0, 1]),
)
_names = st.sampled_from(["first_moment", "second_moment", "losses", "accuracies", "more"])
training_states = st.none() | st.builds(
    TrainingState,
    st.dictionaries(_names, _arrays, max_size=4),
    st.fixed_dictionaries({}, optional={"recipe": _recipe | values, "more": values}),
)


def file_with(metadata: dict[str, Any], state: TrainingState | None, form: str) -> bytes:
    """A file of ours with these metadata, and a hash that holds."""
    return ours(model=CountingTransformer(CONFIG), fields=metadata, state=state, form=form)


@cache
def good_file(form: str) -> bytes:
    return file_with({}, None, form)


labelled_files = st.builds(partial, st.just(file_with), any_metadata, training_states, FORMS)

# --- bytes ---------------------------------------------------------------------------------------------------------

_edits = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "repeat", "write"]), _share, _share, st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: list[tuple[str, float, float, bytes]]) -> bytes:
    for kind, a, b, new in edits:
        start, stop = sorted(int(share * len(data)) for share in (a, b))
        if kind == "flip" and start < len(data):
            data = data[:start] + bytes([data[start] ^ 1 << stop % 8]) + data[start + 1 :]
        elif kind == "cut":
            data = data[:start] + data[stop:]
        elif kind == "insert":
            data = data[:start] + new + data[start:]
        elif kind == "repeat":
            data = data[:stop] + data[start:]
        elif kind == "write":
            data = data[:start] + new + data[start + len(new) :]
    return data


def edited_file(form: str, edits: list[tuple[str, float, float, bytes]]) -> bytes:
    return edited(good_file(form), edits)


def edited_pickle(operations: list[bytes], edits: list[tuple[str, float, float, bytes]]) -> bytes:
    return with_pickle(edited(b"\x80\x02" + b"".join(operations) + b".", edits))


edited_files = st.builds(partial, st.just(edited_file), FORMS, _edits)

_OPERATIONS = [
    *(bytes([code]) for code in b'}])(tsuaeRQbN012"\x85\x86\x87\x88\x89\x93\x94'),
    *(b"q\0", b"h\0", b"q\1", b"h\1", b"K\0", b"K\1", b"K\2", b"J\xff\xff\xff\xff", b"G?\xf0\0\0\0\0\0\0"),
    *(b"X\1\0\0\0a", b"X\1\0\0\x000", b"X\7\0\0\0storage", b"X\3\0\0\0cpu", b"X\x0a\0\0\0state_dict"),
    *(b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_tensor_v3\n", b"ctorch\nFloatStorage\n"),
    *(b"ctorch._utils\n_rebuild_parameter\n", b"ccollections\nOrderedDict\n", b"ctorch\nuint16\n", b"cos\nsystem\n"),
]
_operations = st.lists(st.sampled_from(_OPERATIONS), max_size=40)
pickles = st.builds(partial, st.just(edited_pickle), _operations, st.just([]))
edited_pickles = st.builds(partial, st.just(edited_pickle), _operations, _edits)

_sizes = st.sampled_from([0, 1, 2, 3, 2**31, 2**39, 2**62, 2**64, -1]) | values
_entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*DTYPES, "F8_E4M3"]) | values,
        "shape": st.lists(_sizes, max_size=5) | values,
        "data_offsets": st.tuples(st.just(0), st.integers(0, 32)).map(list) | st.lists(_sizes, max_size=3),
    }
)
_facts = st.dictionaries(st.sampled_from([FORMAT, "training_state", "format"]), texts | st.just("{}"), max_size=3)


def headed(entries: dict[str, Any], facts: Any, body: bytes) -> bytes:
    return header({**entries, **({} if facts is None else {"__metadata__": facts})}, body)


headers = st.builds(
    partial,
    st.just(headed),
    st.dictionaries(st.sampled_from(["embed.W_E", "training_state.m", "a"]) | texts, _entries | values, max_size=3),
    st.none() | _facts | values,
    st.binary(max_size=32),
)
EVERY_FILE: dict[str, st.SearchStrategy[Callable[[], bytes]]] = {  # what to write, built where the test runs
    "good files, edited": edited_files,
    "instructions of a pickle": pickles,
    "pickles, edited": edited_pickles,
    "headers of safetensors": headers,
    "metadata and training states": labelled_files,
}
