"""From a file to what a report says: also for blocks that nothing can be proved about."""

from __future__ import annotations

from counting_interp.interp.pages.report import report_html
from counting_interp.interp.pages.report_entry import report_entry_of
from tests.helpers import small_block


def test_a_block_beyond_the_paper_s_has_a_report(tmp_path):
    path = tmp_path / "block.pt"
    small_block("bos+sftm+values+2heads+norm+gelu+positions+causal").save(path)
    subject = report_entry_of(path, title="block.pt")
    assert subject.verification.startswith("not possible: this is derived for the paper's blocks")
    assert {drawing.name for drawing in subject.drawings} >= {"overlap", "spectrum-1", "confusion"}
    assert "pos_embed.W_pos" in report_html([subject])
