"""Numbers as tokens, the count in a next-token distribution, the count in a text."""

import pytest
import torch

from counting_interp.interp.llm.answers import Node, encode_prompt, goes_on, number_tree, parse_count, read_counts
from counting_interp.interp.llm.prompts import read_prompts
from counting_interp.util.errors import InterpError
from tests.helpers import assert_close
from tests.interp.llm.tiny import BOOK, TEXTS, TOKENIZERS, tokenizer

NUMBERS = BOOK.numbers[:11]
SPACES = str.maketrans("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}\N{LOWER ONE EIGHTH BLOCK}", "  ")


def sayings(node):
    """All token sequences of a tree, with their counts."""
    if node.count is not None:
        yield node.path, node.count
    for child in node.children.values():
        yield from sayings(child)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("end", ["", " "])
def test_every_sequence_reads_as_its_number_and_every_way_of_writing_is_there(kind, end):
    tok = tokenizer(kind)
    tree = number_tree(tok, TEXTS[0].rstrip() + end, NUMBERS)
    read = {(tok.decode(list(path)).strip(), count) for path, count in sayings(tree)}
    assert {(text.replace(" ", ""), count) for text, count in read} == {
        (form, count) for count, forms in enumerate(NUMBERS) for form in forms
    }


@pytest.mark.parametrize("kind", ["digits", "pieces", "letters"])
def test_with_and_without_a_space_in_front(kind):
    tok = tokenizer(kind)
    paths = [list(path) for path, _ in sayings(number_tree(tok, TEXTS[0], NUMBERS))]
    texts = {"".join(tok.convert_ids_to_tokens(path)).translate(SPACES) for path in paths}
    assert {"three", " three", "3", " 3"} <= texts


def test_the_next_word_is_tokenized_in_its_place():
    """Without a space at the end, the tokens are exactly those that the whole text would have."""
    tok = tokenizer("pieces")
    prompt = TEXTS[0].rstrip()
    paths = {path for path, _ in sayings(number_tree(tok, prompt, NUMBERS))}
    for form in ("7", "seven", "10", "ten"):
        whole = encode_prompt(tok, f"{prompt} {form}")
        assert tuple(whole[len(encode_prompt(tok, prompt)) :]) in paths


def test_one_of_ten_is_ambiguous_only_where_digits_are_tokens():
    assert number_tree(tokenizer("digits"), TEXTS[0], NUMBERS).ambiguous
    assert number_tree(tokenizer("letters"), TEXTS[0], NUMBERS).ambiguous
    assert not number_tree(tokenizer("words"), TEXTS[0], NUMBERS).ambiguous
    assert not number_tree(tokenizer("letters"), TEXTS[0], NUMBERS[:10]).ambiguous


@pytest.mark.parametrize("kind", ["digits", "pieces", "letters"])
def test_what_goes_on_with_a_number(kind):
    tok = tokenizer(kind)
    digit = tok.convert_tokens_to_ids("1")
    mask = goes_on(tok, digit)
    assert len(mask) == len(tok)
    for token, name in ((tok.convert_tokens_to_ids(name), name) for name in ("0", "t", ".", ",", "'")):
        assert bool(mask[token]) == name.isalnum()
    assert not mask[tok.eos_token_id]
    spaced = tok(" t", add_special_tokens=False)["input_ids"][0]
    assert not mask[spaced]


def test_words_that_stand_alone_never_go_on():
    tok = tokenizer("words")
    assert not goes_on(tok, tok.convert_tokens_to_ids("1"))[tok.convert_tokens_to_ids("times")]


def test_a_number_that_cannot_be_written_is_an_error():
    with pytest.raises(InterpError, match="cannot write 2 in any of the ways deux"):
        number_tree(tokenizer("words"), TEXTS[0], [["0"], ["1"], ["deux"]])


def test_an_end_of_text_that_a_tokenizer_adds_is_taken_off():
    from tokenizers import processors

    tok = tokenizer("words")
    tok.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    assert tok("list")["input_ids"][-1] == 1
    assert encode_prompt(tok, "list")[-1] == tok.convert_tokens_to_ids("list")


ZERO, ONE, WORD, SPACE, NOISE = range(5)
GOES_ON = torch.tensor([True, True, True, False, False])


def tree_of(sayings):
    root = Node()
    for path, count in sayings.items():
        node = root
        for token in path:
            node = node.children.setdefault(token, Node((*node.path, token)))
        node.count = count
    return root


def reader(table, calls=None):
    """A model whose next-token probabilities are `table[what was said]`, behind the prompt [9]."""

    def next_token(sequences):
        if calls is not None:
            calls.append([tuple(sequence[1:]) for sequence in sequences])
        return torch.tensor([table[tuple(sequence[1:])] for sequence in sequences], dtype=torch.float64)

    return next_token


def read(table, sayings, counts, calls=None):
    return read_counts(reader(table, calls), [[9]], [tree_of(sayings)], counts, GOES_ON)[0]


def test_all_ways_of_writing_are_added():
    """Digit 0.3, word 0.25: together they beat a single form with 0.35."""
    table = {(): [0.35, 0.30, 0.25, 0.0, 0.10]}
    assert_close(read(table, {(ZERO,): 0, (ONE,): 1, (WORD,): 1}, 2), [0.35, 0.55])


def test_ten_is_not_one():
    """P(1) = 0.8, and then 0 with 0.9: ten has 0.72, and one only what stops, 0.8 * 0.08."""
    table = {(): [0.1, 0.8, 0, 0, 0.1], (ONE,): [0.9, 0.02, 0.0, 0.05, 0.03]}
    shares = read(table, {(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10}, 11)
    assert_close(shares[1], 0.8 * 0.08)
    assert_close(shares[10], 0.72)


def test_one_is_one_where_it_stops():
    table = {(): [0.1, 0.8, 0, 0, 0.1], (ONE,): [0.1, 0.0, 0.1, 0.5, 0.3]}
    shares = read(table, {(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10}, 11)
    assert_close(shares[1], 0.8 * 0.8)
    assert_close(shares[10], 0.08)


def test_split_words_have_the_probability_of_the_whole_sequence():
    """The first token of a split word is likely, the word is not."""
    table = {(): [0.0, 0.2, 0.7, 0.0, 0.1], (WORD,): [0.1, 0.0, 0.0, 0.0, 0.9]}
    shares = read(table, {(WORD, ZERO): 0, (ONE,): 1}, 2)
    assert_close(shares, [0.07, 0.2])


def test_only_what_can_matter_is_opened():
    calls = []
    table = {(): [0.985, 0.005, 0.0, 0.0, 0.01]}
    read(table, {(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10}, 11, calls)
    assert calls == [[()]]


def test_a_close_race_is_opened_however_small_the_branch():
    """Branches below the tolerance still decide if the leaders are closer than they are."""
    calls = []
    table = {(): [0.500, 0.008, 0.495, 0.0, 0.0], (ONE,): [0.0, 0.0, 1.0, 0.0, 0.0]}
    shares = read(table, {(ZERO,): 0, (WORD,): 1, (ONE, WORD): 1}, 2, calls)
    assert calls == [[()], [(ONE,)]]
    assert_close(shares, [0.5, 0.503])


def test_prompts_of_a_batch_are_opened_independently():
    calls = []
    sure, unsure = [0.99, 0.0, 0.0, 0.0, 0.01], [0.0, 1.0, 0.0, 0.0, 0.0]

    def next_token(sequences):
        calls.append([list(sequence) for sequence in sequences])
        return torch.tensor([sure if sequence[0] == 8 or len(sequence) > 1 else unsure for sequence in sequences])

    tree = tree_of({(ZERO,): 0, (ONE,): 1, (ONE, ZERO): 10})
    first, second = read_counts(next_token, [[8], [9]], [tree, tree], 11, GOES_ON)
    assert calls == [[[8], [9]], [[9, ONE]]]
    assert_close(first[0], 0.99, 1e-6)
    assert_close(second[10], 0.99, 1e-6)


ALL_NUMBERS = read_prompts().numbers


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
    assert parse_count(text, ALL_NUMBERS) == count
