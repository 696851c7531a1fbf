"""docs/open-question.md says what its tables say."""

from __future__ import annotations

from scripts.open_question import PAGE, SECTION, groups, picture, table


def test_the_table_is_that_of_the_runs() -> None:
    """Made by `python -m scripts.open_question`."""
    shown = SECTION.search(PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].splitlines()[1:-1] == table().splitlines()


def test_the_numbers_of_the_text_are_those_of_the_table() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    counts = []
    for model, lever, factor, runs in groups():
        labels = [label for label, _ in runs if label != "unsolved"]
        if (model, lever) == ("bos+sftm", "rate"):
            assert f"{labels.count('IC')} of {len(labels)} at x {factor:g}" in text
        elif model == "bos+sftm":
            counts.append(f"{labels.count('IC')} of {len(labels)}")
            shares = [shares[1] for label, shares in runs if label != "unsolved"]
            assert all(share <= 0.155 or share >= 0.595 for share in shares)
    assert len(counts) == 5
    assert f"{counts[0]} solved runs to {counts[1]}, {counts[2]}, {counts[3]} and {counts[4]}" in text


def test_every_run_is_drawn() -> None:
    drawn = sum(value for row in picture().table for name, value in row.items() if isinstance(value, int))
    assert drawn == sum(len(runs) for *_, runs in groups())
