"""Which token sequences say a number, for tokenizers that split in different ways."""

import pytest

from counting_interp.interp.llm.numbers import encode_prompt, goes_on, number_tree
from counting_interp.util.errors import InterpError
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
