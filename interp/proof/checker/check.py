"""The whole check: the certificate's form, the weights it names, and every cell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters
from typing import Any

from counting_interp.interp.proof.checker.cell_rounding import ViewBounds
from counting_interp.interp.proof.checker.model import Model, View
from counting_interp.interp.proof.checker.rounding import Q, Rounding, TooLarge
from counting_interp.interp.proof.checker.tree import CellCheck
from counting_interp.interp.proof.checker.weights import Refused, content, digest, no_number, read, strict_json

FORMAT = "counting-interp certificate"
VERSION = 1
MARGIN_BITS = 80  # margins are whole numbers of 2^-80
MAX_BYTES = 2**30
OUTSIDE = "the model lies outside the ordinary range, in which rounding can be bounded"
KEYS = {"format", "version", "weights_sha256", "model", "counts", "precision", "cells", "sha256"}
SIZES = ("T", "L", "d", "p", "n_classes")
MODEL_KEYS = {"mixing", "softmax", *SIZES}
WITHOUT_MEANING = {"dtype", "seed", "frozen_embeddings"}  # of a configuration, for what a model computes
PLAIN = {"n_layers": 1, "values": False, "n_heads": 1, "layer_norm": False, "activation": "relu",
         "positions": False, "causal": False}  # fmt: skip
ORDINARY_BITS = 100  # weights are zero or between 2^-100 and 2^100


@dataclass(frozen=True)
class Checked:
    """What was found to be true.

    Attributes:
        model: the configuration, as the certificate and the checkpoint state it.
        counts: positions with larger true counts are not spoken of.
        precision: the arithmetic in which the model may run; stored: the dtype of its weights.
        slack: by how much proved margins exceed rounding, at least; nodes: of all trees.
    """

    model: dict[str, Any]
    counts: int
    precision: str
    stored: str
    cells: int
    nodes: int
    margin: float
    rounding: float
    slack: float

    @property
    def claim(self) -> str:
        return claim_sentence(self.model["T"], self.model["L"], self.counts, self.precision, self.stored)


def claim_sentence(T: int, L: int, counts: int, precision: str, stored: str) -> str:
    """What is proved, wherever a proof is reported. "Proved", without more, means all of this in the dtype of the file.

    Args:
        counts: the largest true count that is spoken of.
        precision: in which the proof holds; stored: the dtype of the weights.
    """
    positions = "position" if counts == L else f"position with a true count up to {counts}"
    not_stored = "" if precision == stored else f" The weights are {stored}; run in {stored} it is not proved."
    return (
        f"At every {positions} of all {T}^{L} sequences the true count has the strictly highest logit. "
        f"This holds in real numbers and in {precision}.{not_stored} Sums may be taken in any order, small "
        "numbers kept or flushed to zero, exp good to 8 ulp; TF32, bfloat16 and fast-math are excluded. "
        "All weights and sums lie in the ordinary range, up to 2^100 in size."
    )


def seal(document: dict[str, Any]) -> str:
    """sha256 over the document without its own `sha256`, keys in order and no spaces."""
    body = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check(certificate: Path, checkpoint: Path, progress: Callable[[float], None] = lambda share: None) -> Checked:
    """Check a certificate against the weights it names.

    Raises:
        Refused: for a certificate that proves nothing.
        Unreadable: for a checkpoint that cannot be read.
    """
    document = parse(certificate)
    tensors, config = read(checkpoint)
    if digest(tensors) != document["weights_sha256"]:
        raise Refused("it is about other weights than those of this checkpoint")
    _compare(document["model"], config)
    model = Model(tensors, document["model"])
    precision = document["precision"]
    if precision == "float32" and model.kind != "F32":
        raise Refused("it speaks of float32, but the weights are float64")
    if not all(_ordinary(n, bits) for rows, bits in model.weights.values() for row in rows for n in row):
        raise Refused(OUTSIDE)
    try:
        return _cells(document, model, Rounding(model, precision), progress)
    except TooLarge:
        raise Refused(OUTSIDE) from None


def _ordinary(n: int, bits: int) -> bool:
    """Whether n / 2^bits is zero or in the ordinary range."""
    return n == 0 or (1 << bits <= abs(n) << ORDINARY_BITS and abs(n) <= 1 << (bits + ORDINARY_BITS))


def _cells(document: dict[str, Any], model: Model, rounding: Rounding, progress: Callable[[float], None]) -> Checked:
    counts, cells = document["counts"], document["cells"]
    W_out, w_bits = model.read_out
    (b_out,), b_bits = model.weights["b_out"]
    bits = max(w_bits, b_bits, MARGIN_BITS)
    columns = [[row[c] << (bits - w_bits) for row in W_out] for c in range(model.classes)]
    biases = [b << (bits - b_bits) for b in b_out]
    if len(cells) != model.n_views * counts:
        raise Refused(f"it has {len(cells)} cells; this model has {model.n_views * counts}")
    nodes, slack, least, largest = 0, None, None, 0
    for index, view in enumerate(model.views()):
        progress(index / model.n_views)
        bounds = ViewBounds(rounding, view)
        coarse = bounds.at_all_counts()
        for count in range(1, counts + 1):
            margin, trees = cells[index * counts + count - 1]
            stated = margin << (Q - MARGIN_BITS)
            needed = coarse if coarse is not None and coarse < stated else bounds.at(count)
            spare = stated - needed
            if spare <= 0:
                raise Refused(f"{_where(view, count)}: its margin is within the rounding of {document['precision']}")
            right = count - model.first_count
            cell = CellCheck(view, count, model.L)
            challengers = [c for c in range(model.classes) if c != right]
            if len(trees) != len(challengers):
                raise Refused(f"{_where(view, count)}: {len(trees)} trees for {len(challengers)} other classes")
            for c, tree in zip(challengers, trees, strict=True):
                w = [a - b for a, b in zip(columns[right], columns[c], strict=True)]
                bias = biases[right] - biases[c] - (margin << (bits - MARGIN_BITS))
                try:
                    nodes += cell.check(tree, w, bias)
                except Refused as refusal:
                    raise Refused(f"{_where(view, count)}, against class {c}: {refusal}") from None
            slack = spare if slack is None else min(slack, spare)
            least, largest = margin if least is None else min(least, margin), max(largest, needed)
    assert slack is not None
    assert least is not None
    return Checked(
        model=document["model"],
        counts=counts,
        precision=document["precision"],
        stored="float32" if model.kind == "F32" else "float64",
        cells=len(cells),
        nodes=nodes,
        margin=least / 2**MARGIN_BITS,
        rounding=largest / 2**Q,
        slack=slack / 2**Q,
    )


def _where(view: View, count: int) -> str:
    position = "" if view.position is None else f" at position {view.position}"
    letter = ascii_letters.swapcase()[view.token : view.token + 1]  # as everywhere: A to Z, then a to z
    token = f"{letter} ({view.token})" if letter else str(view.token)
    return f"token {token}{position}, count {count}"


def _compare(stated: dict[str, Any], config: dict[str, Any]) -> None:
    for name, value in config.items():
        if name not in WITHOUT_MEANING and (stated | PLAIN).get(name, ...) != value:
            raise Refused(f"the checkpoint says {name}={value!r}, the certificate is not about that")
    if not set(config) >= MODEL_KEYS:
        raise Refused("the checkpoint's configuration is incomplete")


def parse(path: Path) -> dict[str, Any]:
    """A document of exactly the right form, whose seal holds. Only whole numbers, texts, lists and tables."""
    data = content(path, MAX_BYTES, Refused)
    try:
        document = strict_json(data, parse_float=no_number)
    except (ValueError, RecursionError):
        raise Refused("it is not JSON, or it was cut off") from None
    if not isinstance(document, dict) or set(document) != KEYS:
        raise Refused("it is not a certificate: it has other entries")
    if document["format"] != FORMAT or not _is_int(document["version"]) or document["version"] != VERSION:
        raise Refused(f"it is not a certificate of version {VERSION}")
    if document["sha256"] != seal(document):
        raise Refused("it was changed after it was written: its sha256 does not hold")
    model, counts = document["model"], document["counts"]
    if (
        not isinstance(model, dict)
        or set(model) != MODEL_KEYS
        or not all(_is_int(model[name]) and model[name] > 0 for name in SIZES)
    ):
        raise Refused("its model is not described as it should be")
    fits = model["L"] <= model["T"] and model["n_classes"] in (model["L"], model["L"] + 1)
    if model["mixing"] not in ("lin", "dot", "bos") or not isinstance(model["softmax"], bool) or not fits:
        raise Refused("this kind of model cannot be certified")
    if not _is_int(counts) or not 1 <= counts <= model["L"] or document["precision"] not in ("float32", "float64"):
        raise Refused("its count or precision cannot be certified")
    if not isinstance(document["cells"], list) or not all(map(_is_cell, document["cells"])):
        raise Refused("its cells are not written as they should be")
    return document


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_cell(cell: object) -> bool:
    return (
        isinstance(cell, list)
        and len(cell) == 2
        and _is_int(cell[0])
        and 0 < cell[0] < 2 ** (MARGIN_BITS + 1100)
        and isinstance(cell[1], list)
        and all(isinstance(tree, list) and all(_is_int(e) or isinstance(e, str) for e in tree) for tree in cell[1])
    )
