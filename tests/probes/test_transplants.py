"""The transplants: what is proved of them as equalities, and planted truths."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.hand import HandBlock, HandCounter, Head
from benchmarks.standard import StandardCounter
from benchmarks.truths import FAMILIES
from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.symmetries import random_symmetry
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.designs import known_counts, transplant_design
from counting_interp.probes.shares import KINDS, bootstrap, label, name_of, shares
from counting_interp.probes.transplants import transplants
from counting_interp.probes.worths import hooked, record_worths, resumed, transplanted
from tests.helpers import BLOCKS, adapted, assert_close, small_block, small_model

BEFORE, OWN, RELATION, INVENTORY, NULL, BY_QUERIES, NULL_BY_QUERIES = range(7)


def without_queries(variant: str, n_layers: int) -> CountingTransformer:
    model = small_block(variant, n_layers, T=12, L=5, d=8, p=16)
    weights = model.state_dict()
    return CountingTransformer(
        model.config, {key: torch.zeros_like(w) if key.endswith("W_Q") else w for key, w in weights.items()}
    )


def queryless(name: str, n_layers: int):
    if name == "standard":
        return StandardCounter(T=12, L=5, d=16, mixers=("uniform", *["free"] * (n_layers - 1)))
    return without_queries(name, n_layers)


QUERYLESS = [
    *((name, n) for name in ("lin", "lin+sftm", "dot+sftm", "bos+sftm", BLOCKS[-2]) for n in (1, 2)),
    *(("standard", n) for n in (1, 2, 4)),
]


@pytest.mark.parametrize(("name", "n_layers"), QUERYLESS)
def test_p1_without_queries_inventory_is_own_and_relation_is_null(name, n_layers):
    """In the first block, for any read-out: these models are not even trained. The worths differ by rounding only."""
    model = queryless(name, n_layers)
    model.double()
    design = transplant_design(model.config, n_pairs=24)
    with torch.no_grad():
        worths = record_worths(model, design)[1][0]
        logits = hooked(model, design, 0, worths)
    assert float((worths[OWN] - worths[BEFORE]).abs().max()) > 1e-3
    assert_close(worths[INVENTORY], worths[OWN], 1e-12)
    assert_close(worths[RELATION], worths[NULL], 1e-12)
    assert_close(logits[INVENTORY], logits[OWN], 1e-9)
    assert_close(logits[RELATION], logits[NULL], 1e-9)
    result = transplants(model, layer=0, n_pairs=24)
    assert torch.equal(result.answers[0, INVENTORY], result.answers[0, OWN])
    assert torch.equal(result.answers[0, RELATION], result.answers[0, NULL])


def test_p1_holds_in_every_block():
    """In a later block too, since nobody has heard of copies before: zero queries in all blocks."""
    for model in (StandardCounter(T=12, L=5, d=16, mixers=("uniform",) * 3), without_queries("bos+sftm", 2)):
        model.double()
        design = transplant_design(model.config, n_pairs=12)
        with torch.no_grad():
            _, worths = record_worths(model, design)
        assert float(worths[:, OWN].abs().amax((1, 2, 3)).min()) > 1e-6
        assert_close(worths[:, INVENTORY], worths[:, OWN], 1e-9)
        assert_close(worths[:, RELATION], worths[:, NULL], 1e-9)


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("itself", [0.0, 0.3, 1.0, 3.0])
def test_inventory_by_queries_is_own_where_no_weight_depends_on_the_query(itself, n_layers):
    """Any weights of the keys, through a softmax, and any weight of a position for itself; any read-out."""
    rng = torch.Generator().manual_seed(0)
    T, registers = 9, 4
    made = []
    for _ in range(n_layers):
        out = torch.randn(T, registers, generator=rng)
        scores = 2 * torch.randn(T, generator=rng).expand(T, T)
        head = Head(scores, lambda names, held, out=out: names @ out + held.tanh(), softmax=True, itself=itself)
        made.append(HandBlock([head], lambda names, held, out=out: (held + names @ out).sin()))
    model = HandCounter(T, 6, registers, made)
    design = transplant_design(model.config, n_pairs=12)
    _, worths = record_worths(model, replace(design, phases=0 * design.phases))
    assert_close(worths[:, BY_QUERIES], worths[:, OWN], 1e-5)
    assert_close(worths[:, NULL_BY_QUERIES], worths[:, RELATION], 1e-5)
    assert float((worths[:, OWN] - worths[:, INVENTORY]).abs().amax((1, 2, 3)).min()) > 1e-2


def test_of_two_inventories_the_larger_share_counts():
    model, _ = FAMILIES["saturated inventory"](8, 5, torch.Generator().manual_seed(1))
    result = transplants(model)
    assert (result.label, result.by_queries, result.shares.ic.value) == ("IC", (True,), pytest.approx(1))
    assert torch.equal(result.answers[0, INVENTORY], result.answers[0, OWN])
    assert transplants(construct("rc-bos", T=8, L=5)).by_queries == (False,)
    assert transplants(construct("ic-lin", T=8, L=5)).by_queries is None


@pytest.mark.parametrize("n_layers", [1, 2, 4])
@pytest.mark.parametrize("mixer", ["relation", "gated"])
def test_p2_without_weight_on_unequal_tokens_a_bystander_hears_nothing(mixer, n_layers):
    model = StandardCounter(T=12, L=5, d=16, mixers=(mixer, *["free"] * (n_layers - 1)))
    result = transplants(model, layer=0, n_pairs=24)
    assert torch.equal(result.answers[0, INVENTORY], result.answers[0, BEFORE])
    assert torch.equal(result.answers[0, NULL], result.answers[0, BEFORE])
    assert (result.agreements[0, :, 2:].nan_to_num() == 0).all()


@pytest.mark.parametrize("name", ["dot", "bos+sftm", "lin", *BLOCKS])
def test_own_gives_the_logits_of_the_target_back_in_one_block(name):
    """Without its phase, own is the difference between two runs: added to the one, it is the other."""
    model = small_block(name)
    design = transplant_design(model.config, n_pairs=12)
    design = replace(design, phases=torch.zeros_like(design.phases))
    with torch.no_grad():
        natural, worths = record_worths(model, design)
        logits = transplanted(model, design, 0, worths[0])
    start, end = design.ends.T
    assert_close(logits[BEFORE], natural[start])
    assert_close(logits[OWN], natural[end])


@pytest.mark.parametrize("name", CATALOGUE)
def test_constructions(name):
    entry = CATALOGUE[name]
    model = construct(name, T=12, L=5)
    result = transplants(model)
    expected = {"RC": 0, "IC": 1}.get(entry.mechanism)
    values = [result.shares.rc.value, result.shares.ic.value, result.shares.gated.value]
    assert sum(values) == pytest.approx(1)
    if entry.case == "hybrid":
        assert values == pytest.approx([0.5, 0.5, 0], abs=0.1)
        assert result.label == "mixed"
    elif entry.case == "gated":
        assert (values[2] > 0.85, result.label) == (True, "gated")
    elif name.startswith("ic-dot+sftm"):  # equal tokens weigh more: part of each step needs the match
        assert values[1] > 0.35
        assert values[0] < 0.1
        assert result.label.startswith("IC")
    else:
        assert expected is not None
        assert values[expected] > 0.9
        assert result.label == entry.mechanism


@pytest.mark.parametrize("weight", [0.1, 0.2, 0.35, 0.65, 0.8, 0.9])
@pytest.mark.parametrize("name", ["hybrid-dot", "hybrid-bos", "hybrid-bos+sftm"])
def test_planted_shares(name, weight):
    result = transplants(construct(name, T=16, L=6, weight=weight))
    assert result.shares.rc.value == pytest.approx(weight, abs=0.1)
    assert result.shares.ic.value == pytest.approx(1 - weight, abs=0.1)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_resuming_gives_what_hooks_give(block, n_layers):
    model = small_block(block, n_layers)
    design = transplant_design(model.config, n_pairs=5)
    with torch.no_grad():
        _, worths = record_worths(model, design)
        for layer in range(n_layers):
            assert_close(resumed(model, design, layer, worths[layer]), hooked(model, design, layer, worths[layer]))


@pytest.mark.parametrize("name", ["bos+sftm+values+2heads+norm+gelu+positions+causal", "dot+sftm+values"])
def test_an_adapter_gives_the_same(name):
    model = small_block(name)
    assert torch.equal(transplants(adapted(model)).answers, transplants(model).answers)


@pytest.mark.parametrize("name", ["rc-bos+sftm", "ic-dot+sftm", "hybrid-dot", "ic-dot-compact", "rc-dot-compact"])
def test_symmetries_change_nothing(name):
    model = construct(name, T=10, L=5, dtype="float64")
    first = transplants(model)
    for seed in range(3):
        other = transplants(random_symmetry(model, seed))
        assert torch.equal(first.answers, other.answers)
        renamed = transplants(random_symmetry(model, seed, rename=True))
        assert renamed.label == first.label
        assert renamed.shares.rc.value == pytest.approx(first.shares.rc.value, abs=0.1)
        assert renamed.shares.ic.value == pytest.approx(first.shares.ic.value, abs=0.1)


@pytest.mark.parametrize(("T", "L"), [(4, 3), (4, 4), (5, 5), (8, 6), (40, 20)])
@pytest.mark.parametrize("name", ["rc-bos", "ic-lin", "ic-bos+sftm"])
def test_small_alphabets_and_long_sequences(T, L, name):
    result = transplants(construct(name, T=T, L=L))
    assert result.label == CATALOGUE[name].mechanism


def test_design():
    config = small_model("dot", T=12, L=5).config
    design = transplant_design(config, n_pairs=40)
    assert torch.equal(
        design.tokens[:, 0].bincount(minlength=12).clamp(3, 4), design.tokens[:, 0].bincount(minlength=12)
    )
    assert all(len(set(row)) == 4 for row in design.tokens.tolist())
    tokens = design.sequences((2, 0))  # copies of t, heard by q
    t, q = design.tokens[:, 0], design.tokens[:, 2]
    assert torch.equal((tokens == t[:, None]).sum(-1), design.counts[:, None].expand(-1, 40))
    assert ((tokens == q[:, None]).sum(-1) == 1).all()
    assert torch.equal(
        tokens.gather(-1, design.at.expand(len(tokens), -1)[..., None])[..., 0], q.expand(len(tokens), -1)
    )
    fillers = {frozenset(row) for row in design.fillers.tolist()}
    assert all(len(row) == 5 for row in fillers)  # T >= L + 3: all different
    for row, four in zip(design.fillers.tolist(), design.tokens.tolist(), strict=True):
        assert not set(row) & set(four)
    nested = design.copies(design.counts)
    assert (nested[1:] | ~nested[:-1]).all()
    causal = transplant_design(small_model("dot+causal", T=12, L=5).config)
    assert (causal.at == 4).all()
    assert float(design.phases.sum()) == pytest.approx(0, abs=1e-5)


def test_only_counts_that_the_sampler_shows():
    model = small_model("dot", T=12, L=5)
    told = {
        name: CountingTransformer(model.config, model.state_dict(), {"training": {"sampler": name}})
        for name in ("paper", "published", "uniform")
    }
    assert [known_counts(told[name]) for name in told] == [4, 4, 3]
    assert int(transplants(told["uniform"], n_pairs=4).counts.max()) == 3
    assert known_counts(construct("rc-dot", T=12, L=5)) == 4
    with pytest.raises(ValueError, match=r"highest in 2\.\.4"):
        transplants(model, highest=5)  # no room for a bystander


def test_refuses_what_has_no_bystander():
    with pytest.raises(NotApplicable, match="T >= 4"):
        transplants(small_model("dot", T=3, L=3))


def test_a_model_that_never_moves_says_why():
    model = small_model("dot", T=8, L=4)
    model.blocks[0].mlp.W_out.data.zero_()
    result = transplants(model)
    assert result.label == ""
    assert "no block moves the answer" in result.reason
    assert result.summary["rc"] is None


def test_labels():
    nan = float("nan")
    assert name_of(nan, nan, nan) == ""
    assert name_of(0.9, 0.0, 0.1) == "RC"
    assert name_of(0.0, 0.6, 0.4) == "IC"
    assert name_of(0.1, 0.0, 0.9) == "gated"
    assert name_of(0.1, 0.47, 0.43) == "IC, sharpened by attention"
    assert name_of(0.0, 0.4, 0.6) == "gated"  # the largest share decides
    assert name_of(0.22, 0.3, 0.48) == "mixed"
    assert name_of(0.6, 0.4, 0.0) == "mixed"
    assert name_of(0.0, 0.0, 1.0, up=2.0, down=0.0) == "either suffices"
    assert name_of(0.0, 0.0, 1.0, up=0.0, down=2.0) == "both needed"
    assert name_of(0.45, 0.2, 0.35) == "mixed"


def test_the_smaller_direction_net_of_the_null():
    #          own   relation inventory null
    agree = torch.tensor([[1.0, 1.0, 0.2, 0.2], [1.0, 0.68, 0.2, 0.2]], dtype=torch.float64)
    assert_close(shares(agree), [0.6, 0.0, 0.4])
    assert label(agree) == "RC"
    agree[1, 3] = 0.9  # a stranger does it too: the direction says nothing
    assert_close(shares(agree), [1.0, 0.0, 0.0])
    agree[0, 0] = 0.1  # and the other one is not moved
    assert shares(agree).isnan().all()


def test_bootstrap_counts_rows():
    drawn = bootstrap(7, 0)
    assert (drawn.sum(1) == 7).all()
    assert (drawn[0] == 1).all()


def test_tables():
    result = transplants(construct("hybrid-dot", T=8, L=5, weight=0.3))
    assert [row["token"] for row in result.by_token()] == list(range(8))
    assert [row["count"] for row in result.by_count()] == [1, 2, 3, 4]
    assert len(result.by_pair()) == len(result.tokens) == 56
    assert {row["direction"] for row in result.rows()} == {"up", "down"}
    assert len(KINDS) == result.answers.shape[1]
    low, high = result.shares.rc.low, result.shares.rc.high
    assert low <= result.shares.rc.value <= high + 0.05
