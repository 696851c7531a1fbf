"""Prompts are data: what is bundled, what a user may add, and what is refused."""

import json

import pytest

from counting_interp.interp.llm.prompt_file import read_prompts
from counting_interp.interp.llm.queries import all_queries


def write(folder, fields):
    path = folder / "own.json"
    path.write_text(fields if isinstance(fields, str) else json.dumps(fields), encoding="utf-8")
    return path


def test_bundled_categories_are_the_papers():
    categories = read_prompts().categories
    assert list(categories) == ["letters", "animals", "months"]
    assert categories["letters"].items == tuple("ABCDEFGHIJKL")
    animals = "dog, cat, donkey, horse, elephant, giraffe, lion, tiger, bear, wolf, zebra, monkey"
    months = "january february march april may june july august september october november december"
    assert ", ".join(categories["animals"].items) == animals
    assert " ".join(categories["months"].items) == months


def test_bundled_prompts_are_the_four_types():
    assert list(read_prompts().prompts) == [
        "compare-position",
        "compare-semantic",
        "summarize-position",
        "summarize-semantic",
    ]


def test_ordinals_and_numbers_go_together():
    book = read_prompts()
    assert len(book.ordinals) == 20
    assert len(book.numbers) == 21
    assert [forms[0] for forms in book.numbers] == [str(count) for count in range(21)]
    assert book.word(10) == "ten"
    assert "once" in book.numbers[1]
    assert book.longest_list == 20


def test_a_users_category_and_prompt_are_added(tmp_path):
    path = write(
        tmp_path,
        {
            "categories": {"suits": {"name": "card suits", "items": ["spades", "hearts", "clubs"]}},
            "prompts": {"short": {"ask": "present", "template": "{list}\nHow often does {item} occur? Answer:"}},
        },
    )
    book = read_prompts(path)
    assert list(book.categories) == ["letters", "animals", "months", "suits"]
    chosen = book.select(["suits"], ["short"])
    queries = all_queries(chosen, ["uniform"], lists=3, length=5, seed=0)
    assert {query.target for query in queries if query.number == 0} == set(queries[0].items)
    assert queries[0].text.startswith("['")
    assert queries[0].text.endswith(f"How often does {queries[0].target} occur? Answer:")
    assert sum(query.truth for query in queries) == 15


def test_the_list_format_is_data(tmp_path):
    path = write(tmp_path, {"list": {"before": "", "item": "{item}", "between": "; ", "after": "."}})
    query = all_queries(read_prompts(path).select(["letters"]), ["uniform"], lists=1, length=3, seed=0)[0]
    assert query.text.startswith("; ".join(query.items) + ".: By comparing all three items")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("{", "Expecting"),
        ("[1]", "Expected `object`, got `array`"),
        ("{}", "it holds nothing; give list, categories"),
        ('{"about": "nothing else"}', "it holds nothing"),
        ("[" * 100_000, "recursion"),
        ('{"list": 1, "list": 2}', "'list' stands twice"),
        ('{"categories": {' + '"x": 1,' * 50_000 + '"x": 1}}', "'x' stands twice"),
        ({"colour": 1}, "unknown field `colour`"),
        ({"\x1b[31m": 1}, "unknown field"),
        ({"categories": []}, r"Expected `object.*categories"),
        ({"categories": {}}, r"Expected `object` of length >= 1"),
        ({"categories": {str(i): 1 for i in range(70_000)}}, r"Expected `object` of length <= 200"),
        ({"categories": {"x": ["a"]}}, "category 'x': Expected `object`, got `array`"),
        ({"categories": {"x": {"name": "x"}}}, "category 'x': Object missing required field `items`"),
        ({"categories": {"x": {"name": "x", "items": ["a"]}}}, "length >= 2"),
        ({"categories": {"x": {"name": "x", "items": ["a", "a"]}}}, "an item twice"),
        ({"categories": {"x": {"name": "x", "items": ["a", 3]}}}, r"Expected `str`, got `int` - at `\$.items\[1\]`"),
        ({"categories": {"x": {"name": "x", "items": ["a", "\x1b[2J"]}}}, "cannot be printed"),
        ({"categories": {"\x1b[2J": {"name": "x", "items": ["a", "b"]}}}, "cannot be printed"),
        ({"categories": {"x": {"name": "x", "items": ["a", "b" * 900_000]}}}, "length <= 200"),
        ({"prompts": {"x": {"ask": "items", "template": "{list} {thing}"}}}, "unknown placeholder 'thing'"),
        ({"prompts": {"x": {"ask": "items", "template": "{list} appears"}}}, r"asks for items needs \{item\}"),
        ({"prompts": {"x": {"ask": "positions", "template": "{list} {item} {ordinal}"}}}, r"cannot hold \{item\}"),
        ({"prompts": {"x": {"ask": "maybe", "template": "{list} {item}"}}}, r"prompt 'x': Invalid enum value 'maybe'"),
        ({"prompts": {"x": {"ask": ["items"], "template": "{list} {item}"}}}, r"prompt 'x': Expected `str`"),
        ({"prompts": {"x": {"ask": "items", "template": "{list} {item"}}}, "write {{ for a brace"),
        ({"prompts": {"x": {"ask": "items", "template": "{list.__class__} {item}"}}}, "unknown placeholder"),
        ({"prompts": {"x": {"ask": "items", "template": "{list:>99} {item}"}}}, "plain name in braces"),
        ({"list": {"before": "["}}, "missing required field `item`"),
        ({"list": {"before": "", "item": "x", "between": "", "after": ""}}, "must hold {item} once"),
        ({"numbers": [["0"], ["1"], ["1"]]}, "'1' stands for two numbers"),
        ({"numbers": [["0"], ["one time"]]}, "letters and digits alone"),
        ({"numbers": [[], ["1"]]}, "length >= 1"),
        ({"ordinals": "first"}, "Expected `array.*, got `str` - at `.*ordinals`"),
        ({"ordinals": ["first", 1e999]}, "Expected `str`, got `float`"),
        (" " * 2**20 + "{}", "more than 1,048,576 bytes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_prompts(write(tmp_path, fields))
    assert "own.json" in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 500


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(ValueError, match="no such file"):
            read_prompts(path)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown category 'fruits'; the prompt file has letters, animals, months"):
        read_prompts().select(categories=["fruits"])
    with pytest.raises(ValueError, match="no prompt was chosen"):
        read_prompts().select(prompts=[])
