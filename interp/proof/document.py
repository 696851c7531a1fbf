"""A certificate that others can check: what the proof of every cell used, as one JSON document.

For each cell, in the order of `views` and then of counts, and for each other class: the branch-and-bound tree, depth
first, as a list. A number is a split: a token s (no position of the rest holds s; one does), or -1 - m (what the m-th
of the other positions holds). A text is a leaf: alpha in units of 1/128, two hexadecimal digits for each hidden unit
that speaks for the right class. It is empty where nothing lies between the node's corners. The cell's margin, in units
of 2^-80, is exceeded on every sequence and is above the rounding errors of the stated precision. `interp.proof.checker`
reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Int

from counting_interp.interp.proof.branch import LEAF, PROVED
from counting_interp.interp.proof.cells import CountCell, extremes, views
from counting_interp.interp.proof.checker.check import FORMAT, VERSION, seal
from counting_interp.interp.proof.outcome import Certificate
from counting_interp.interp.proof.reduction import Reduction
from counting_interp.interp.proof.rounding import OWN_FACTOR, Rounding
from counting_interp.models.checkpoint.safetensors import digest
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError

MARGIN_UNIT = 2.0**-80
BUDGETS = (1, 64, 4_096, 262_144)  # nodes of one tree
MAX_NODES = 4_000_000  # of all trees: beyond, the file would take more than some 500 MB

Tree = list[Any]  # of numbers and texts


def proof_document(
    model: CountingTransformer, certificate: Certificate, progress: Callable[[str, float], None] | None = None
) -> dict[str, Any]:
    """The proof behind `certificate`, found again and written down.

    Raises:
        InterpError: for a model of two layers, or a proof that is too long.
    """
    config = model.config
    if config.n_layers != 1:
        raise InterpError("only one-layer models have a certificate to write; two layers are proved by running them")
    reduction = Reduction(model)
    rounding, own_rounding = Rounding(reduction, certificate.precision), Rounding(reduction, "float64")
    n_views = config.T * len(reduction.positions)
    cells, nodes = [], 0
    with np.errstate(all="ignore"):
        for index, view in enumerate(views(reduction)):
            if progress is not None:
                progress("certificate", index / n_views)
            high = extremes(view, config.L)[1]
            needed = rounding.margins(view, high).max(1)
            prover_error = OWN_FACTOR * own_rounding.margins(view, high).max(1)
            for count in range(1, certificate.counts + 1):
                cell = CountCell(reduction, view, count)
                trees, margin = _trees(cell, float(needed[count - 1] + prover_error[count - 1]))
                nodes += sum(map(len, trees))
                if nodes > MAX_NODES:
                    raise InterpError(f"the proof has more than {MAX_NODES:,} nodes; too many to write down")
                cells.append([_in_units(margin - float(prover_error[count - 1])), trees])
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "weights_sha256": digest({name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}),
        "model": {
            "mixing": config.mixing,
            "softmax": config.softmax,
            **{name: getattr(config, name) for name in ("T", "L", "d", "p", "n_classes")},
        },
        "counts": certificate.counts,
        "precision": certificate.precision,
        "cells": cells,
    }
    return {**document, "sha256": seal(document)}


def _in_units(margin: float) -> int:
    """In whole units of MARGIN_UNIT, rounded down."""
    if not np.isfinite(margin):
        raise InterpError("a margin is not finite; there is nothing to write down")
    return math.floor(Fraction(margin) / Fraction(MARGIN_UNIT))


def _trees(cell: CountCell, threshold: float) -> tuple[list[Tree], float]:
    """One tree for each other class, in order of classes, and the margin that all of them prove."""
    trees, margin = [], np.inf
    for challenger in range(cell.reduction.config.classes):
        if challenger != cell.right:
            tree, bound = _tree(cell, challenger, threshold)
            trees.append(tree)
            margin = min(margin, bound)
    return trees, margin


def _tree(cell: CountCell, challenger: int, threshold: float) -> tuple[Tree, float]:
    r = cell.reduction
    speaks_for = r.W_out[:, cell.right] - r.W_out[:, challenger] > 0
    for budget in BUDGETS:
        record = np.zeros(budget, np.int64), np.zeros((budget, len(speaks_for)), np.int64)
        verdict, nodes, bound, _ = cell.prove(challenger, threshold, budget, record)
        if verdict == PROVED:
            return [_entry(cell, record[0][n], record[1][n, speaks_for]) for n in range(nodes)], bound
    raise InterpError(
        f"token {cell.view.token}, count {cell.count}: no proof in {BUDGETS[-1]:,} nodes that could be written down"
    )


def _entry(cell: CountCell, split: np.int64, alpha: Int[np.ndarray, "d_mlp"]) -> int | str:
    if split == LEAF:
        return "" if (alpha < 0).any() else bytes(alpha.tolist()).hex()  # negative: the corners are all there is
    return int(split) if split >= 0 else -1 - int(cell.order[-1 - split])
