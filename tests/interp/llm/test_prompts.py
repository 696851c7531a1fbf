"""The prompt book, its file, and every question with its true answer."""

import json
import re

import pytest
import torch

from counting_interp.interp.llm.prompts import all_queries, read_prompts, sample_list
from counting_interp.models import task
from tests.helpers import ROOT
from tests.interp.llm.tiny import count_in


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


BOOK = read_prompts()


def first_list(prompt, category="letters", **options):
    return all_queries(BOOK.select([category], [prompt]), ["paper"], **{"lists": 1, "length": 10, "seed": 3, **options})


def test_a_whole_prompt_of_each_type():
    by_type = {name: first_list(name, "animals")[1] for name in BOOK.prompts}
    written = "['" + "', '".join(by_type["compare-position"].items) + "']"
    compare = f"{written}: By comparing all ten items in the previous list to one another, we find that "
    summarize = (
        f"{written}: By summarising the occurrences of animals of the land in the previous list of ten items, "
        "we find that "
    )
    assert by_type["compare-position"].text == compare + "the second item of the list appears "
    assert by_type["summarize-position"].text == summarize + "the second item of the list appears "
    assert by_type["compare-semantic"].text == compare + "'cat' appears "
    assert by_type["summarize-semantic"].text == summarize + "'cat' appears "


def test_positional_questions_name_each_place_once_and_in_order():
    queries = first_list("compare-position")
    named = [re.findall(r"the (\w+) item of", query.text)[0] for query in queries]
    assert named == ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
    assert [query.target for query in queries] == list(range(1, 11))


def test_semantic_questions_name_every_item_and_the_counts_add_up_to_the_list():
    queries = first_list("compare-semantic")
    assert [query.target for query in queries] == list("ABCDEFGHIJKL")
    assert sum(query.truth for query in queries) == 10
    assert {query.truth for query in queries if query.target not in query.items} == {0}


def test_positional_truth_is_the_task():
    """The count of a position is what the toy models are trained on: `task.histogram`."""
    queries = all_queries(BOOK.select(["months"], ["compare-position"]), ["paper"], lists=20, length=10, seed=0)
    for number in range(20):
        places = sample_list("paper", number, items=12, length=10, seed=0)
        expected = task.histogram(torch.tensor(places)).tolist()
        assert [query.truth for query in queries if query.number == number] == expected


def test_truth_agrees_with_a_second_reading_of_the_text():
    queries = all_queries(BOOK, ["uniform", "paper"], lists=5, length=10, seed=1)
    assert len(queries) == 5 * 2 * 3 * (2 * 10 + 2 * 12)
    assert all(count_in(query.text) == query.truth for query in queries)
    assert len({query.truth for query in queries}) >= 6


def test_the_papers_run_has_26400_questions():
    queries = all_queries(BOOK, ["uniform", "paper"], lists=100, length=10, seed=0)
    assert len(queries) == 26_400
    assert {query.truth for query in queries} == set(range(11))


def test_a_longer_run_begins_with_the_shorter_one():
    short, long = (all_queries(BOOK, ["uniform", "paper"], lists=n, length=10, seed=0) for n in (2, 4))
    assert long[: len(short)] == short


def test_categories_are_asked_about_the_same_patterns():
    queries = all_queries(BOOK, ["uniform"], lists=1, length=10, seed=0)
    patterns = {tuple(BOOK.categories[query.category].items.index(item) for item in query.items) for query in queries}
    assert len(patterns) == 1


@pytest.mark.parametrize("sampling", ["uniform", "paper", "published"])
def test_lists_follow_the_label_distribution_of_the_task(sampling):
    """Counts at the first position over 1,000 lists: within four standard errors of the exact distribution."""
    n = 1000
    lists = [sample_list(sampling, number, items=12, length=10, seed=0) for number in range(n)]
    counts = [places.count(places[0]) for places in lists]
    for count, share in enumerate(task.label_distribution(sampling, T=12, L=10).tolist(), start=1):
        if share * n >= 5 or share == 0:  # else the normal approximation does not hold
            assert abs(counts.count(count) / n - share) <= 4 * (share * (1 - share) / n) ** 0.5


def test_the_same_seed_gives_the_same_list_and_touches_no_global_generator():
    state = torch.get_rng_state()
    assert sample_list("paper", 3, items=12, length=10, seed=0) == sample_list("paper", 3, items=12, length=10, seed=0)
    assert sample_list("paper", 3, items=12, length=10, seed=0) != sample_list("paper", 3, items=12, length=10, seed=1)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samplings": ["random"]}, "the sampling must be one of paper, published, uniform, got 'random'"),
        ({"samplings": []}, "at least one; got none"),
        ({"samplings": ["paper", "paper"]}, "name each sampling once"),
        ({"lists": 0}, "at least 1, got 0"),
        ({"length": 1}, "between 2 and 20, got 1"),
        ({"length": 21, "samplings": ["uniform"]}, "between 2 and 20, got 21"),
        ({"length": 13}, "needs 13 items or more in a category; 'letters' has fewer"),
    ],
)
def test_impossible_runs_are_refused(change, message):
    options = {"samplings": ["paper"], "lists": 1, "length": 10, "seed": 0, **change}
    with pytest.raises(ValueError, match=message):
        all_queries(BOOK, options.pop("samplings"), **options)


def test_the_printed_wording_in_the_documentation_is_a_valid_prompt_file(tmp_path):
    """docs/language-models.md shows a prompt file with the wording as the paper prints it."""
    text = (ROOT / "docs" / "language-models.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "printed.json"
    path.write_text(example, encoding="utf-8")
    names = list(json.loads(example)["prompts"])
    query = all_queries(read_prompts(path).select(["letters"], names), ["paper"], lists=1, length=10, seed=0)[0]
    assert query.text == (
        ", ".join(query.items) + " By comparing all ten items in the previous list to one another, "
        "we find that the first item of the list appears"
    )
