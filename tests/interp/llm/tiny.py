"""Small tokenizers and causal language models, built on the spot: nothing is downloaded."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutputWithPast

from counting_interp.interp.llm.prompts import all_queries, read_prompts

BOOK = read_prompts()
TEXTS = [query.text for query in all_queries(BOOK, ["uniform", "paper"], lists=3, length=10, seed=5)]
WRITTEN = [f" {form} times" for forms in BOOK.numbers for form in forms]
END = 1
TOKENIZERS = ("words", "digits", "pieces", "letters")


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """`words`: one token per word, spaces forgotten. `digits`: each digit a token, spaces part of words, as Mistral's.
    `pieces`: byte-level pieces with whole numbers, as Llama 3's. `letters`: every character a token."""
    special = ["<s>", "</s>", "<unk>"]
    trainer: trainers.Trainer
    if kind == "words":
        tok = Tokenizer(models.WordLevel(unk_token="<unk>"))
        tok.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(special_tokens=special)
    elif kind == "digits":
        tok = Tokenizer(models.BPE(unk_token="<unk>"))
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(individual_digits=True)]
        )
        tok.decoder = decoders.Metaspace(prepend_scheme="first")
        trainer = trainers.BpeTrainer(vocab_size=260, special_tokens=special, show_progress=False)
    else:
        tok = Tokenizer(models.BPE(unk_token=None))
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tok.decoder = decoders.ByteLevel()
        size = 259 if kind == "letters" else 420
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    tok.train_from_iterator(TEXTS + WRITTEN * 3, trainer)
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def llama(vocab: int, seed: int = 0) -> LlamaForCausalLM:
    """Random weights, large enough that its answers vary from prompt to prompt."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def gpt2(vocab: int) -> GPT2LMHeadModel:
    """Learned absolute positions: wrong position ids change its answers."""
    config = GPT2Config(
        vocab_size=vocab,
        n_positions=1024,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return GPT2LMHeadModel(config).eval()


class Speaker(LlamaForCausalLM):
    """A language model that reads its prompt as text and says what `answer(prompt)` tells it to: token by token,
    and then the end of text. It knows nothing of `counting_interp.interp.llm` but the tokens it is given."""

    def __init__(self, tok: PreTrainedTokenizerFast, answer: Callable[[str], str]) -> None:
        super().__init__(llama(len(tok)).config)
        self.config.use_cache = self.generation_config.use_cache = False
        self.tok, self.answer = tok, answer
        self.known: dict[tuple[int, ...], list[int]] = {}

    def forward(self, input_ids, attention_mask=None, **_):
        attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        logits = torch.zeros(len(input_ids), 1, self.config.vocab_size)
        for row, (ids, mask) in enumerate(zip(input_ids, attention_mask, strict=True)):
            logits[row, -1, self._next(ids[mask.bool()].tolist())] = 30.0
        return CausalLMOutputWithPast(logits=logits)

    def _next(self, ids: list[int]) -> int:
        """The prompt comes first, then the prompt with what was said: a prompt seen before is recognised."""
        for said in range(min(len(ids), 20)):
            wanted = self.known.get(tuple(ids[: len(ids) - said]))
            if wanted is not None:
                rest = ids[len(ids) - said :] if said else []
                return wanted[said] if said < len(wanted) and wanted[:said] == rest else END
        prompt = str(self.tok.decode(ids, skip_special_tokens=True))
        assert prompt.rstrip().endswith("appears"), prompt
        before, spoken = (
            self.tok(text, add_special_tokens=False)["input_ids"] for text in ("\n", "\n" + self.answer(prompt))
        )
        self.known[tuple(ids)] = spoken[len(before) :]
        return self._next(ids)


def count_in(prompt: str) -> int:
    """The right answer, read off the text of a prompt by other means than those that wrote it."""
    listed, asked = prompt.split("]", 1)
    items = re.findall(r"'\s*(\w+)\s*'", listed)
    named = re.findall(r"'\s*(\w+)\s*'", asked)
    if named:
        return items.count(named[-1])
    (ordinal,) = re.findall(r"the (\w+) item of the list", asked)
    places = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
    return items.count(items[places.index(ordinal)])


def save(folder, kind: str = "pieces", seed: int = 0) -> None:
    """A model folder as `transformers` writes it."""
    tok = tokenizer(kind)
    llama(len(tok), seed).save_pretrained(folder)
    tok.save_pretrained(folder)
