"""Worths, transplanted logits and proved claims, against a second computation that shares nothing with the first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from counting_interp.interp.proof.transplants import TransplantProver
from counting_interp.models.constructions import construct
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.designs import transplant_design
from counting_interp.probes.shares import KINDS
from counting_interp.probes.worths import record_worths, transplanted
from tests.helpers import small_model
from tests.interp.proof.worths_from_weights import Row, Weights

VARIANTS = ("lin", "lin+sftm", "dot", "dot+sftm", "bos", "bos+sftm")
MODELS = {
    **{f"{v} {n} layers": partial(small_model, v, n, T=8, L=6) for v in VARIANTS for n in (1, 2)},
    "bos+sftm T=12 L=7": lambda: small_model("bos+sftm", 2, T=12, L=7),
    "dot T=20 L=12": lambda: small_model("dot", T=20, L=12, d=9, p=16),
    "T=4": lambda: small_model("bos", T=4, L=4),
    "rc-bos+sftm": lambda: construct("rc-bos+sftm", T=16, L=8, dtype="float64"),
    "trained": lambda: CountingTransformer.load("bos+sftm-d64-p64-proved"),
}


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_worths_and_answers_are_those_of_the_weights(name):
    model = MODELS[name]()
    close = 1e-9 if model.config.dtype == "float64" else 2e-4
    design = transplant_design(model.config, n_pairs=2, seed=3)
    design = replace(design, phases=torch.zeros(2))
    _, found = record_worths(model, design)
    assert found.shape[1] == (5 if model.config.mixing == "lin" else 7)
    moves = [0, len(design.moves) // 2, len(design.moves) - 1]
    for block in range(model.config.n_layers):
        logits = transplanted(model, design, block, found[block])
        for index in range(2):
            row = Row(Weights(model), *(x[index].tolist() for x in (design.tokens, design.order, design.fillers)))
            for move in moves:
                i0, i1 = design.moves[move].tolist()
                expected = row.worths(block, i0, i1)
                base = row.sequence(row.t, row.t, i0)
                for kind in range(1, found.shape[1]):
                    worth = expected[[*KINDS, "inventory by queries", "null by queries"][kind]]
                    size = 1 + np.abs(worth).max()
                    assert found[block, kind, move, index].numpy() == pytest.approx(worth, abs=close * size)
                    told = row.answer(base, block, worth)
                    size = 1 + np.abs(told).max()
                    assert logits[kind, move, index].numpy() == pytest.approx(told, abs=close * size)


@pytest.mark.parametrize("name", ["rc-bos", "ic-lin", "ic-dot-compact", "ic-dot+sftm", "bos+sftm-d64-p64-proved"])
def test_claims_hold_on_sequences_far_beyond_what_can_be_listed(name):
    """Of each claim, random sequences of its cell are computed from the weights alone; `always` and `never` hold."""
    zoo = name.endswith("proved")
    model = CountingTransformer.load(name) if zoo else construct(name, T=12, L=7)
    prover, rng = TransplantProver(model, n_pairs=2, seed=1), np.random.default_rng(0)
    design, weights, seen = prover.design, Weights(model), set()
    steps = [(i0, i1) for i0, i1 in design.moves.tolist() if abs(i1 - i0) == 1]
    for index in range(2):
        row = Row(weights, *(x[index].tolist() for x in (design.tokens, design.order, design.fillers)))
        for (i0, i1), claims in zip(steps, prover.steps(index), strict=True):
            worths = {KINDS[0]: np.zeros(model.config.d), **row.worths(0, i0, i1)}
            for tokens in sequences(row, i0, model.config.T, rng):
                for kind, worth in ((name, worths[name]) for name in KINDS):
                    said = int(row.answer(tokens, 0, worth).argmax()) + model.config.first_count
                    hit = said == (i0 if kind == KINDS[0] else i1)
                    assert claims[kind] != ("never" if hit else "always"), (kind, i0, i1, tokens)
            seen |= set(claims.values())
    assert seen & {"always", "never"}


def sequences(row, count, T, rng, n=6):
    """With t at the listener's position and `count` times in all; the others of few tokens, or of many."""
    others = [token for token in range(T) if token != row.t]
    for _ in range(n):
        few = rng.choice(others, size=rng.integers(1, 5))
        rest = rng.choice(few, size=len(row.order) - count)
        places = rng.permutation(row.order[1:])[: count - 1].tolist()
        tokens, left = [0] * len(row.order), iter(rest.tolist())
        for position in range(len(tokens)):
            tokens[position] = row.t if position in (row.order[0], *places) else next(left)
        yield tokens
