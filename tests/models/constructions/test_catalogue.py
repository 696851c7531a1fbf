"""Every entry builds a model that counts correctly, at several sizes, and refuses sizes it cannot serve."""

from __future__ import annotations

import pytest
import torch

from counting_interp.interp.proof import Certificate, prove
from counting_interp.models.constructions import CATALOGUE, construct
from tests.models.constructions.cases import all_multisets

NAMES = sorted(CATALOGUE)


@pytest.mark.parametrize("name", NAMES)
def test_counts_correctly_at_its_default_size(name):
    """Proved on all 32^10 sequences by `prove`, which knows nothing of how the model was made. (It takes seconds for
    `lin`, where each position is a case of its own: there the tightest of the three constructions stands for all.)"""
    model = construct(name)
    assert (model.config.T, model.config.L, model.config.dtype) == (32, 10, CATALOGUE[name].dtype)
    if name.startswith("ic-lin") and not name.endswith("compact"):
        model = construct(name, 16, 5)
    certificate = prove(model, seconds=600)  # a limit that no busy machine reaches
    assert isinstance(certificate, Certificate)
    assert certificate.precision == CATALOGUE[name].dtype


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("T", "L"), [(6, 6), (8, 5), (3, 2)])
def test_counts_correctly_on_every_multiset(name, T, L):
    assert construct(name, T, L).accuracy(all_multisets(T, L)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("ic-lin")])
def test_proved_at_another_size(name):
    longest = min(15, CATALOGUE[name].longest)
    assert isinstance(prove(construct(name, 16, longest, n_classes=longest + 1)), Certificate)


@pytest.mark.parametrize("name", NAMES)
def test_surplus_dimensions_units_and_a_class_for_zero_change_nothing(name):
    small = construct(name, 7, 5)
    c = small.config
    large = construct(name, 7, 5, d=c.d + 3, p=c.p + 4, n_classes=6)
    sequences = all_multisets(7, 5)
    assert large.accuracy(sequences) == 1
    assert torch.equal(large.predict(sequences), small.predict(sequences))


@pytest.mark.parametrize("name", NAMES)
def test_carries_its_label_and_where_it_comes_from(name):
    mechanism = construct(name, 8, 5).metadata["mechanism"]
    assert mechanism["label"] == CATALOGUE[name].mechanism
    assert (mechanism["provenance"], mechanism["construction"]) == ("constructed", name)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_weights(name):
    first, second = construct(name, 8, 5, seed=3), construct(name, 8, 5, seed=3)
    for key, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[key]), key


@pytest.mark.parametrize("name", NAMES)
def test_refuses_what_is_too_small_and_says_which_bound(name):
    entry = CATALOGUE[name]
    least = (entry.least_d or entry.smallest_d)(32, 10)
    with pytest.raises(ValueError, match=rf"needs d >= {least} at T=32, L=10: .*got d={least - 1}"):
        construct(name, d=least - 1)
    units = entry.smallest_p(32, 10)
    with pytest.raises(ValueError, match=rf"needs p >= {units} .*got p={units - 1}"):
        construct(name, p=units - 1)


def test_refuses_more_places_than_tokens_unknown_names_and_unknown_options():
    with pytest.raises(ValueError, match="2 <= L <= T, got L=9, T=8"):
        construct("rc-dot", 8, 9)
    with pytest.raises(ValueError, match=r"no construction 'rc-dor'; did you mean rc-dot"):
        construct("rc-dor")
    with pytest.raises(ValueError, match="rc-dot has no option 'weight'; it has none"):
        construct("rc-dot", weight=0.5)


def test_every_variant_has_a_construction_of_each_mechanism_it_allows():
    offered = {(entry.variant, entry.mechanism) for entry in CATALOGUE.values()}
    for variant in ("dot", "bos", "bos+sftm"):
        assert {(variant, label) for label in ("RC", "IC", "mixed")} <= offered
    for variant in ("lin", "lin+sftm", "dot+sftm"):
        assert (variant, "IC") in offered


def test_breaking_a_weight_breaks_the_count():
    """The cases above can fail: a hidden unit that looks the wrong way is noticed."""
    model = construct("ic-lin", 8, 5)
    with torch.no_grad():
        model.blocks[0].mlp.W_in[:, 3] *= -1
    assert model.accuracy(all_multisets(8, 5)) < 1
