"""What counts as a number at the beginning of a generated text."""

import pytest

from counting_interp.interp.llm.generated import parse_count
from counting_interp.interp.llm.prompt_file import read_prompts

NUMBERS = read_prompts().numbers


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("3 times in the list", 3),
        (" 3 times", 3),
        ("3", 3),
        ("3.", 3),
        ("3, which", 3),
        ("three times", 3),
        ("\nThree times", 3),
        ("once.", 1),
        ("twice in", 2),
        ("one time", 1),
        ("10 times", 10),
        ("1 0", 1),
        ("ten times", 10),
        ("12 times", 12),
        ("0 times", 0),
        ("zero times", 0),
        ("seventeen", 17),
        ("seven teen", 7),
        ("999999999999999999999999", 9999999999),
        ("3rd", None),
        ("3.5 times", None),
        ("1,000", None),
        ("threefold", None),
        ("onces", None),
        ("exactly 3 times", None),
        ("in the list 3 times", None),
        ("-3", None),
        ("", None),
        ("٣", None),
    ],
)
def test_parse(text, count):
    assert parse_count(text, NUMBERS) == count
