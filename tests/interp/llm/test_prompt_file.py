"""Prompts are data: what is bundled, what a user may add, and what is refused."""

import json

import pytest

from interp.llm.prompt_file import read_prompts
from interp.llm.queries import all_queries


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
        ("[1]", "must hold a JSON object"),
        ('{"list": 1, "list": 2}', "'list' stands twice"),
        ({"colour": 1}, "unknown field"),
        ({"categories": []}, "categories must be an object"),
        ({"categories": {"x": ["a"]}}, "'x' needs a name and items"),
        ({"categories": {"x": {"name": "x", "items": ["a"]}}}, "two items or more"),
        ({"categories": {"x": {"name": "x", "items": ["a", "a"]}}}, "an item twice"),
        ({"categories": {"x": {"name": "x", "items": ["a", 3]}}}, "must be a list of texts"),
        ({"prompts": {"x": {"ask": "items", "template": "{list} {thing}"}}}, "unknown placeholder"),
        ({"prompts": {"x": {"ask": "items", "template": "{list} appears"}}}, r"asks for items: it needs \{item\}"),
        ({"prompts": {"x": {"ask": "positions", "template": "{list} {item} {ordinal}"}}}, r"cannot hold \{item\}"),
        ({"prompts": {"x": {"ask": "maybe", "template": "{list} {item}"}}}, "ask must be one of"),
        ({"prompts": {"x": {"ask": "items", "template": "{list} {item"}}}, "write {{ for a brace"),
        ({"prompts": {"x": {"ask": "items", "template": "{list.__class__} {item}"}}}, "unknown placeholder"),
        ({"prompts": {"x": {"ask": "items", "template": "{list:>99} {item}"}}}, "plain name in braces"),
        ({"list": {"before": "["}}, "list needs the texts"),
        ({"list": {"before": "", "item": "x", "between": "", "after": ""}}, "must hold {item} once"),
        ({"numbers": [["0"], ["1"], ["1"]]}, "stand for two numbers: 1"),
        ({"numbers": [["0"], ["one time"]]}, "letters and digits alone"),
        ({"ordinals": "first"}, "ordinals must be a list"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_prompts(write(tmp_path, fields))
    assert "own.json" in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(ValueError, match="no such file"):
            read_prompts(path)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown category 'fruits'; the prompt file has letters, animals, months"):
        read_prompts().select(categories=["fruits"])
    with pytest.raises(ValueError, match="no prompt was chosen"):
        read_prompts().select(prompts=[])
