"""What transplants do on every sequence: constructions have one mechanism by proof, and proofs agree with running."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from counting_interp.interp.proof.transplants import TransplantProver, prove_transplants
from counting_interp.models.constructions import construct
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.designs import transplant_design
from counting_interp.probes.shares import KINDS
from counting_interp.probes.worths import record_worths
from tests.helpers import ROOT, small_model

RC = ("rc-bos", "rc-bos+sftm", "rc-dot-compact", "rc-bos-coherence", "rc-bos+sftm-sign")
IC = ("ic-lin", "ic-lin+sftm", "ic-dot", "ic-bos+sftm", "ic-lin-coherence")


@pytest.mark.parametrize("name", [*RC, *IC])
def test_constructions_of_one_mechanism_are_proved_in_every_step(name):
    found = prove_transplants(construct(name, T=6, L=4), n_pairs=8)
    mechanism = name[:2].upper()
    assert found.proved == {"RC": 0, "IC": 0, "gated": 0, "either": 0} | {mechanism: found.steps}
    assert (found.rows, found.steps, found.open) == (8, 8 * 4, 0)
    assert str(found) == f"on every sequence, {mechanism} 32 of 32 steps by one count (8 rows of tokens)"


def test_gated_constructions_are_mostly_gated_by_proof():
    found = prove_transplants(construct("ic-dot-compact", T=8, L=5))
    assert found.proved["gated"] > 0.65 * found.steps
    assert found.varies > 0
    (witness,) = found.exceptions
    assert witness.kind == "relation"
    assert found.to_dict()["witnesses"][0]["tokens"] == witness.tokens


def test_half_and_half_is_a_tie():
    """Each worth moves the answer by exactly half a count, so nothing can be proved of whole counts."""
    assert not any(prove_transplants(construct("hybrid-dot", T=6, L=4), n_pairs=4).proved.values())


def perturbed(name, size, seed=0):
    model = construct(name, T=5, L=4)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += size * weight.abs().max() * torch.randn(weight.shape, generator=rng, dtype=weight.dtype)
    return model


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda name=name, size=size: perturbed(name, size), id=f"{name} {size}")
        for name, size in [
            ("rc-bos", 0.02),
            ("rc-bos+sftm", 0.03),
            ("ic-lin", 0.05),
            ("ic-lin+sftm", 0.03),
            ("ic-dot+sftm", 0.0),
            ("ic-bos+sftm", 0.02),
            ("ic-dot-compact", 0.03),
        ]
    ]
    + [pytest.param(lambda v=v: small_model(v, T=5, L=4), id=f"untrained {v}") for v in ("dot", "bos+sftm", "lin")],
)
def test_claims_agree_with_running_the_hooked_model_on_all_sequences(model):
    """Every sequence of T = 5, L = 4 is run with each worth added at the positions of t."""
    model = model()
    prover = TransplantProver(model, n_pairs=6, seed=1)
    design = transplant_design(model.config, highest=int(prover.design.counts.max()), n_pairs=6, seed=1)
    _, worths = record_worths(model, replace(design, phases=torch.zeros(6)))
    sequences = torch.tensor(list(product(range(5), repeat=4)))
    seen = set()
    for row in range(6):
        moves = [(m, i0, i1) for m, (i0, i1) in enumerate(design.moves.tolist()) if abs(i1 - i0) == 1]
        for (move, i0, i1), claims in zip(moves, prover.steps(row), strict=True):
            t, at = int(design.tokens[row, 0]), int(design.at[row])
            chosen = sequences[(sequences[:, at] == t) & ((sequences == t).sum(1) == i0)]
            for kind, name in enumerate(KINDS):
                goal = i1 if kind else i0
                answers = running(model, chosen, t, worths[0, kind, move, row], at)
                hits = answers == goal
                true = "always" if hits.all() else "sometimes" if hits.any() else "never"
                assert claims[name] in (true, "open"), (row, i0, i1, name)
                seen.add(claims[name])
    assert seen - {"open"}


@torch.no_grad()
def running(model, tokens, t, worth, at):
    positions = torch.nn.functional.pad(tokens == t, (model.config.prefix, 0))[..., None]
    hooks = [("blocks.0.hook_attn_out", lambda value, hook: value + positions * worth)]
    return model.run_with_hooks(tokens, fwd_hooks=hooks)[:, at].argmax(-1) + model.config.first_count


def test_witnesses_are_what_the_model_says():
    model = perturbed("rc-bos", 0.04, seed=3)
    prover = TransplantProver(model, n_pairs=16, seed=0)
    claims = [list(prover.steps(row)) for row in range(16)]
    assert any(step["relation"] == "sometimes" for steps in claims for step in steps)
    assert prover.witnesses
    for witness in prover.witnesses.values():
        (i0, i1), t = witness.step, witness.row[0]
        assert witness.tokens.count(t) == i0
        assert witness.tokens[witness.position] == t
        move = prover.design.moves.tolist().index([i0, i1]) if witness.kind != "before" else 0
        row = prover.design.tokens[:, :3].tolist().index(list(witness.row))
        worth = torch.tensor(prover.worths[KINDS.index(witness.kind), move, row]).float()
        said = running(model.float(), torch.tensor([witness.tokens]), t, worth, witness.position)
        assert int(said) == witness.answer


def test_claims_need_margins_above_rounding():
    """Numbers near 2^100 leave the ordinary range: nothing is claimed."""
    model = construct("rc-bos", T=6, L=4)
    with torch.no_grad():
        model.blocks[0].mlp.W_in *= 2.0**101
    found = prove_transplants(model, n_pairs=2)
    assert found.open + found.unsound + found.varies == found.steps
    assert np.array([n["always"] + n["never"] for n in found.claims.values()]).sum() == 0


def test_two_layers_are_refused():
    with pytest.raises(NotApplicable):
        prove_transplants(small_model("dot", T=5, L=4, n_layers=2))


@pytest.mark.slow
def test_the_table_of_bundled_models_in_the_docs():
    """Up to a few steps: another processor rounds the worths, and margins near rounding, in another way."""
    text = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| ([^|]+) of ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for name, proved, steps, *rest in rows:
        found = prove_transplants(CountingTransformer.load(name), seconds=600.0)
        told = {kind: int(n.replace(",", "")) for kind, n in re.findall(r"(\w+) ([\d,]+)", proved)}
        assert found.steps == int(steps.replace(",", ""))
        assert found.proved == pytest.approx(dict.fromkeys(found.proved, 0) | told, abs=5)
        assert (found.varies, found.unsound, found.open) == pytest.approx(tuple(map(int, rest)), abs=5)
