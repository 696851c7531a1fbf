"""Numbers of the README and of docs/ are those of their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counting_interp.models import CountingConfig, CountingTransformer
from scripts import claims
from tests.helpers import ROOT

HOOK = re.compile(r"^\| `([\w.]+)` \| .+ \| ([\w, ]+) \|$", re.M)


@pytest.fixture(scope="module")
def found() -> list[claims.Claim]:
    return claims.claims()


@pytest.mark.parametrize("page", claims.PAGES, ids=lambda path: path.name)
def test_results_are_those_of_the_tables(page: Path, found: list[claims.Claim]) -> None:
    """Made by `python -m scripts.claims --publish`."""
    shown = claims.SECTION.search(page.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].splitlines()[1:-1] == claims.lines(found, claims.PAGES[page]).splitlines()


def test_a_claim_can_be_read_at_a_glance(found: list[claims.Claim]) -> None:
    assert max(len(claim.answer.split()) for claim in found) <= 25


def test_the_campaign_on_certificates() -> None:
    (row,) = (row for row in claims.table("certificates.csv") if row["source"] == "all")
    page = " ".join((ROOT / "docs" / "proofs.md").read_text(encoding="utf-8").split())
    assert f"{int(row['certified']):,} were certified; in {int(row['runs']):,} runs" in page
    assert f"two libraries {row['wrong']} were wrong" in page
    assert (
        f"Of {int(row['checked']):,} proofs that also went through the checker {row['refused_by_checker']} were" in page
    )


@pytest.mark.parametrize("name", ["lin", "bos+sftm", "dot+sftm+values+4heads+norm+gelu+positions+causal"])
def test_hook_points_are_listed_with_their_shapes(name: str) -> None:
    listed = dict(HOOK.findall((ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")))
    model = CountingTransformer(CountingConfig.parse(name, T=8, L=5, d=16, p=7, n_layers=2, seed=0))
    _, cache = model.run_with_cache(model.to_tokens("BBCBD"))
    config = model.config
    length = 5 + (config.mixing == "bos")
    size = {"batch": 1, "pos": length, "query": length, "key": length, "head": config.n_heads}
    size |= {"d": 16, "p": 7, "1": 1, "d_head": config.d_head if config.values else 16, "d or classes": 16}
    for hook, value in cache.items():
        short = re.sub(r"^blocks\.\d\.", "", hook)
        axes = dict(size)
        if short in ("attn.hook_q", "attn.hook_k"):
            axes["d_head"] = config.d_head
        if hook == "blocks.1.hook_mlp_out":
            axes["d or classes"] = config.n_classes or 0
        assert tuple(value.shape) == tuple(axes[axis] for axis in listed[short].split(", ")), hook
    assert {re.sub(r"^blocks\.\d\.", "", hook) for hook in cache} <= listed.keys()
