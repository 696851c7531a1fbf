"""The attention probe against scores known in closed form, and against a constant matrix."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import CountingTransformer, task
from counting_interp.probes.attention import _auc_within, attention, auc, constant_structure
from counting_interp.probes.designs import parse_sequence
from tests.helpers import EVERY_MODEL, assert_close, small_model
from tests.probes.planted import built, changed, other_basis


def test_tagged_embeddings_score_t_plus_3_for_equal_and_t_plus_2_for_different_tokens():
    result = attention(built("rc-dot", T=12, L=6))
    assert_close(result.score_means.equal, 15.0)
    assert_close(result.score_means.diagonal, 15.0)
    assert_close(result.score_means.different, 14.0)
    assert result.auc == result.auc_within == 1.0
    assert_close(result.by_relation, 1.0)
    assert result.by_position < 0.1
    assert result.mixer is None


def test_softmax_with_bos_gives_the_shares_of_the_proof():
    """For k copies, e / ((k+1) e + L - k) to `$` and to each copy, 1 / (...) to the rest."""
    model = built("rc-bos+sftm", T=32, L=10)
    result = attention(model, parse_sequence("BBCBBBDEEE", model.config))
    assert "".join(result.labels) == "$BBCBBBDEEE"
    e = torch.e
    for query, k in ((1, 5), (3, 1), (7, 1), (10, 3)):
        total = (k + 1) * e + 10 - k
        expected = torch.where(result.equal[query], e / total, 1 / total).double()
        expected[0] = e / total
        assert_close(result.pattern[query], expected, 1e-7)
    assert_close(result.scores[0, 1:], torch.ones(10))  # <$, e_t> = 1


@pytest.mark.parametrize("name", ["ic-lin", "ic-lin+sftm"])
def test_uniform_mixing_separates_nothing(name):
    result = attention(built(name, T=12, L=6))
    assert result.auc == result.auc_within == 0.5
    assert result.by_position is result.by_relation is None
    assert_close(result.pattern, torch.full((6, 6), 1 / 6).double(), 1e-7)
    assert_close([result.mixer.diagonal_mean, result.mixer.off_diagonal_mean], [1 / 6, 1 / 6])
    assert result.mixer.two_value_share is None


@pytest.mark.parametrize("name", ["ic-dot", "ic-bos", "ic-bos+sftm"])
def test_attention_that_could_compare_but_does_not(name):
    result = attention(built(name, T=12, L=6))
    assert result.auc == result.auc_within == 0.5
    assert result.by_relation is None


def test_an_untrained_constant_mixer_varies_by_place_and_not_by_relation():
    result = attention(small_model("lin"), n=2000)
    assert_close(result.by_position, 1.0)
    assert result.by_relation < 0.01
    assert abs(result.auc - 0.5) < 0.03
    assert 0 < result.mixer.two_value_share < 1


def test_looking_away_from_equal_tokens_is_separation_too():
    model = built("rc-dot", T=12, L=6)
    state = model.state_dict()
    result = attention(changed(model, W_Q=-state["blocks.0.attn.W_Q"]))
    assert result.auc == result.auc_within == 0.0


def test_two_values_on_and_off_the_diagonal():
    matrix = 0.9 * torch.eye(5).double() + 0.1
    structure = constant_structure(matrix)
    assert_close([structure.diagonal_mean, structure.off_diagonal_mean], [1.0, 0.1])
    assert_close([structure.diagonal_std, structure.off_diagonal_std, structure.row_sum_std], [0.0, 0.0, 0.0])
    assert_close(structure.two_value_share, 1.0)
    matrix[0, 1] = 3.0
    assert constant_structure(matrix).two_value_share < 0.5


def test_auc_is_the_share_of_ordered_pairs():
    positive, negative = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.0, 2.0, 4.0, 6.0])
    wins = sum(float(p > n) + 0.5 * float(p == n) for p in positive for n in negative)
    assert_close(auc(positive, negative), wins / 12)
    assert auc(positive, negative[:0]) is None


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_by_hand_through_hooks(variant, n_layers):
    """Store scores and pattern with plain hooks and average them in a loop."""
    model = small_model(variant, n_layers)
    layer, bos = n_layers - 1, int(model.config.has_bos)
    result = attention(model, layer=layer, n=30, seed=3)
    tokens = task.sample("paper", 30, T=7, L=5, generator=3)
    kept = {}
    names = [f"blocks.{layer}.attn.hook_attn_scores", f"blocks.{layer}.attn.hook_pattern"]
    model.run_with_hooks(
        tokens, fwd_hooks=[(name, lambda x, hook: kept.update({hook.name: x.detach()})) for name in names]
    )
    for name, means in zip(names, (result.score_means, result.pattern_means), strict=True):
        groups = {"diagonal": [], "equal": [], "different": []}
        for row, matrix in zip(tokens, kept[name][:, 0, bos:, bos:], strict=True):
            for q in range(5):
                for k in range(5):
                    relation = "diagonal" if q == k else "equal" if row[q] == row[k] else "different"
                    groups[relation].append(float(matrix[q, k]))
        for relation, values in groups.items():
            assert_close(getattr(means, relation), sum(values) / len(values))


@pytest.mark.parametrize("variant", ["dot", "bos+sftm"])
def test_the_basis_does_not_matter(variant):
    model = small_model(variant)
    mine, other = attention(model), attention(other_basis(model))
    assert_close(other.scores, mine.scores, 1e-6)
    assert_close([other.auc, other.auc_within, other.by_relation], [mine.auc, mine.auc_within, mine.by_relation], 1e-6)


def test_auc_within_rows_survives_rescaling_of_queries_by_token():
    """Multiply the scores of each query token by a positive factor: rows keep their order, the pooled AUC does not."""
    model = built("rc-dot", T=12, L=6)
    factors = torch.linspace(1, 3, 12).double()[:, None]
    state = model.state_dict()
    queries = torch.linalg.lstsq(state["embed.W_E"], factors * (state["embed.W_E"] @ state["blocks.0.attn.W_Q"]))
    result = attention(changed(model, W_Q=queries.solution))
    assert result.auc_within == 1.0
    assert result.auc < 0.9


def test_a_layer_that_does_not_exist():
    with pytest.raises(ValueError, match=r"layer must lie in 0\.\.0 for dot, got 1"):
        attention(small_model("dot"), layer=1)


def test_single_precision_is_enough_to_see_no_difference():
    model = built("ic-dot", T=12, L=6)
    single = {name: value.float() for name, value in model.state_dict().items()}
    result = attention(CountingTransformer(model.config.replace(dtype="float32"), weights=single))
    assert result.auc == 0.5


def test_the_auc_within_rows_equals_the_count_of_all_pairs():
    rng = torch.Generator().manual_seed(0)
    scores = torch.randint(4, (6, 7, 7), generator=rng).double()  # with ties
    equal = torch.randint(2, (6, 7, 7), generator=rng).bool()
    same, different = equal & ~torch.eye(7, dtype=torch.bool), ~equal
    above = (scores[..., :, None] > scores[..., None, :]).double()
    tied = (scores[..., :, None] == scores[..., None, :]).double()
    pairs = (same[..., :, None] & different[..., None, :]).double()
    rows = pairs.sum((-1, -2)) > 0
    expected = (((above + tied / 2) * pairs).sum((-1, -2))[rows] / pairs.sum((-1, -2))[rows]).mean()
    assert_close(_auc_within(scores, same, different), expected)
