"""Numbers on the command line have bounds: what no machine can do is refused in a sentence before it begins."""

from __future__ import annotations

import pytest

MANY = 10**9
TINY = ("--model", "dot", "-d", "2", "-p", "2")


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", *TINY, "--epochs", MANY, "-o", "{new}"),
        ("train", *TINY, "--runs", MANY, "-o", "{new}"),
        ("train", *TINY, "--snapshots", MANY, "-o", "{new}"),
        ("train", *TINY, "-T", MANY, "-o", "{new}"),
        ("train", *TINY, "--seed", 2**63 - 1, "--runs", 3, "-o", "{new}"),
        ("construct", "rc-bos", "-T", 4096, "-o", "{new}"),
        ("construct", "--list", "-T", 4096),
        ("bounds", "-T", 4096),
        ("sweep", "run", "{new}", "--runs", MANY),
        ("sweep", "run", "{new}", "--epochs", MANY),
        ("sweep", "run", "{new}", "--set", f"epochs={MANY}"),
        ("sweep", "run", "{new}", "--preset", "fig1", "--runs", 10_000),
        ("sweep", "run", "{new}", "--workers", MANY),
        ("probe", "attention", "zoo", "--threads", MANY),
        ("llm", "--model", "none", "-o", "{new}", "--lists", MANY),
    ],
)
def test_numbers_beyond_reason_are_usage_errors(interp, tmp_path, arguments):
    code, out, err = interp(*(str(argument).format(new=tmp_path / "new.pt") for argument in arguments))
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert not (tmp_path / "new.pt").exists()
