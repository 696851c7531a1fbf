"""Any transformer that counts, as the measures want it: sequences in, logits of counts out, hook points by our names.

    Adapter(net, T=8, L=5)

The model is not edited, and its modules need no names. How it is read and where it mixes positions is found by trying
(`reading`, `discover`); `print(adapter)` says what was found and how it was checked. Measures need one point for each
block, `blocks.{layer}.hook_attn_out`: what its mixer adds to the residual stream. An attention pattern is opened where
there is one; other points can be named.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from counting_interp.models import task
from counting_interp.models.adapter.checks import HIDDEN, check_named, extra_points
from counting_interp.models.adapter.discover import Mixers, Search, Trial
from counting_interp.models.adapter.points import PARTS, PATTERN, QUERIES, SCORES, Net, Point
from counting_interp.models.adapter.reading import (
    GUESSED,
    Questions,
    Reading,
    find_questions,
    find_reading,
)
from counting_interp.util.errors import AdapterWarning, InterpError, MissingPoint
from counting_interp.util.text import sampled

MIXER = "hook_attn_out"
TRANSFORMER_LENS = "blocks.{layer}.hook_attn_out"
TRIAL_ROWS = (11, 13)  # two numbers of rows, one of which is not the number of positions
MORE = "probes that need none (transplants, confusion) still work"
NOWHERE = "no set of modules carries everything that reaches a position from the others; name it with mixer="
IN_LIST = (
    "what attention brings to the positions outside of the list does not decide the answer; it must be read there, and "
    "not from the list's positions as well (a mean over all positions)"
)
LATE = (
    "the first modules that carry what reaches a position from the others ({}) already hold its own token; if a "
    "block's mixer writes there, name it with mixer=, else wrap its output in an nn.Identity"
)
NO_START = (
    "On a sequence of one repeated token it answers the same at every position: it cannot tell A from A A A. A causal "
    "model with rotary positions only averages equal values there. Train it with a start token in front, or with "
    "absolute positions."
)


@dataclass(frozen=True)
class AdapterSpec:
    """What was given and found of a model (see `models.protocol.ModelSpec`). Class i always means count i + 1.

    Attributes:
        p: hidden units of the last block's feed-forward layer; 0 where none was found.
        n_heads: of the attention pattern; 1 where there is none.
        can: `pattern` where attention patterns can be read and written.
        asks: whether one question is asked at a time, about a token of a list.
    """

    name: str
    T: int
    L: int
    d: int
    p: int
    n_layers: int
    n_heads: int
    n_positions: int
    prefix: int
    softmax: bool
    causal: bool
    first_count: int = 1
    extras: tuple[str, ...] = ("a block of its own",)
    can: tuple[str, ...] = ()
    asks: bool = False

    @property
    def classes(self) -> int:
        return self.L

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(eq=False, repr=False)
class Adapter:
    """A counting model made of `module`, which is put into eval mode and otherwise left as it is.

    Args:
        module: any torch module: of Hugging Face, TransformerLens, torch.nn, or your own.
        T, L: sequences have L tokens from 0..T-1; L is at least 3 and at most T.
        causal, prefix: found by trying; a given value must agree with what is found. `prefix` is the number of
            positions before the sequence. The true answer of a causal model is the count so far.
        encode: from sequences [row, L] to the module's input: a tensor, a tuple of arguments, or a dictionary of them.
            By default the tokens as they are, or with a start token in prefix, whichever counts better.
        read: from the module's output to logits [row, L, L]: at each position of the sequence, for each count 1..L.
        mixer: the module whose output each block's mixer adds to the residual stream, with `{layer}` for the number of
            the block; several names where blocks differ. Needed only where it cannot be found.
        ask: from sequences [row, L] and tokens [row] to the module's input, for a model that reads a list, then a
            question, and answers once. Excludes `encode`.
        at: the position of the output at which such a model answers.
        hooks: where the module has further points of TransformerLens' (`attn.hook_pattern`, `mlp.hook_pre`, ...) by
            other names, with `{layer}`.
        name: what to call it.
        metadata: `{"training": {"sampler": "paper"}}` if it was trained on that one; otherwise two are tried.

    Raises:
        InterpError: all that is wrong, at once, with what to say instead.
    """

    module: nn.Module
    T: int
    L: int
    causal: bool | None = None
    prefix: int | None = None
    encode: Callable[[Tensor], Any] | None = None
    read: Callable[[Any], Tensor] | None = None
    mixer: str | Sequence[str] | None = None
    ask: Callable[[Tensor, Tensor], Any] | None = None
    at: int = -1
    hooks: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.module = getattr(self.module, "_orig_mod", self.module)  # torch.compile keeps the model that it was given
        if not isinstance(self.module, nn.Module) or isinstance(self.module, torch.jit.ScriptModule):
            raise InterpError(
                f"an adapter needs the torch.nn.Module itself, got a {type(self.module).__name__}; build the model, "
                "load its weights (load_state_dict), and pass that"
            )
        if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in self.module.parameters()):
            raise InterpError("weights in half precision are too coarse to measure with; pass net.float()")
        self.module.eval()
        self.net = Net(self.module)
        self.mixers: Mixers
        self.reading: Reading
        self.points: dict[str, Point] = {}  # by our names
        self.notes: list[str] = []
        self.from_list = False
        self.name = self.name or type(self.module).__name__
        with torch.no_grad():
            if problems := self._open():
                more = "" if len(problems) == 1 else f"{len(problems)} things are wrong:\n- "
                raise InterpError(f"{self.name} cannot be read: {more}" + "\n- ".join(problems))
        for note in self.notes:
            warnings.warn(f"{self.name}: {note}", AdapterWarning, stacklevel=3)

    # --- running -----------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def run_with_hooks(self, tokens: Int[Tensor, "row pos"], *, fwd_hooks: Any = ()) -> Tensor:
        """Logits [row, pos, class]; the functions are called with what passes the points, as in TransformerLens.

        With `ask`, each row is asked about its last token, and all positions have that answer.
        """
        hooks = [self._placed(name, function) for name, function in fwd_hooks]
        inputs = self.reading.encode(tokens.to(self.device))
        logits = self.reading.read(self.net.run(inputs, hooks, (len(tokens), self.reading.positions)))
        return logits[:, None].expand(-1, self.L, -1) if isinstance(self.reading, Questions) else logits

    def run_with_cache(self, tokens: Int[Tensor, "row pos"], *, names_filter: Any = ()) -> tuple[Tensor, Any]:
        """Logits, and what passed the named hook points."""
        cache: dict[str, Tensor] = {}
        hooks = [(name, partial(_keep, cache, name)) for name in names_filter]
        return self.run_with_hooks(tokens, fwd_hooks=hooks), cache

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "*batch pos"] | str | Sequence[int]) -> Int[Tensor, "*batch pos"]:
        """The predicted count at each position of tokens, letters or a list of numbers; with `ask`, the answer to a
        question about the token there."""
        tokens = task.as_tokens(tokens, self.config)
        rows = tokens.reshape(-1, self.L)
        if isinstance(self.reading, Questions):
            outputs = [self.net.run(self.reading.ask(*self._on_device(rows, asked))) for asked in rows.T]
            logits = torch.stack([self.reading.read(output) for output in outputs], 1)
        else:
            logits = self.run_with_hooks(rows)
        return (logits.argmax(-1) + self.config.first_count).reshape(tokens.shape)

    def truth(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        counts_so_far = self.config.causal and not self.config.asks
        return task.running_count(tokens) if counts_so_far else task.histogram(tokens)

    @property
    def lists(self) -> Adapter:
        """With `ask`: the same model, of which measures read and write the list's positions instead of the question."""
        if not isinstance(self.reading, Questions):
            raise InterpError(f"{self.name} answers at the positions of the list itself")
        view = copy(self)
        view.from_list = True
        view.config = dataclasses.replace(self.config, name=f"{self.name}, list")
        return view

    def _on_device(self, *tensors: Tensor) -> list[Tensor]:
        return [tensor.to(self.device) for tensor in tensors]

    def _placed(self, name: str, function: Callable[..., Any]) -> tuple[Point, Callable[..., Any]]:
        """The module's point for one of our names. Where there are no scores, the log of the pattern is used."""
        if name.endswith(MIXER):
            return self._point(name), partial(self._on_mixer, function)
        pattern = name.replace(SCORES, PATTERN)
        if name in self.points or pattern == name or pattern not in self.points or not self.config.softmax:
            return self._point(name), function

        def on_pattern(value: Tensor, hook: Any) -> Tensor | None:
            scores = function(value.log(), hook=hook)
            return None if scores is None else scores.softmax(-1)

        return self.points[pattern], on_pattern

    def _on_mixer(self, function: Callable[..., Any], value: Tensor, hook: Any) -> Tensor | None:
        """Heads side by side; of a model that is asked, only what listens."""
        joined, asked = value.flatten(2), self.reading
        if not isinstance(asked, Questions):
            changed = function(joined, hook=hook)
        else:
            changed = function(asked.seen(joined, from_list=self.from_list), hook=hook)
            changed = None if changed is None else asked.written(joined, changed, from_list=self.from_list)
        return None if changed is None else changed.reshape(value.shape)

    def _point(self, name: str) -> Point:
        if name not in self.points:
            *_, rest = name.split(".", 2)
            if rest in (PATTERN, SCORES):
                raise MissingPoint(f"{self.name} has no attention pattern that can be read; {MORE}")
            known = ", ".join(sorted({point.split(".", 2)[-1] for point in self.points}))
            raise MissingPoint(f"{self.name} has no point {name}, only {known}; hooks={{{rest!r}: ...}} names it")
        return self.points[name]

    # --- finding -----------------------------------------------------------------------------------------------

    def _open(self) -> list[str]:
        """Find everything; what is wrong, in sentences."""
        if not 3 <= self.L <= self.T:
            return [f"a model to be classified needs 3 <= L <= T, got L={self.L}, T={self.T}"]
        names = [self.mixer] if isinstance(self.mixer, str) else list(self.mixer or ())
        problems = check_named(self.net, self.hooks, names)
        reading, unread = self._read()
        if reading is None:
            return problems + unread
        self.reading = reading
        if self.causal is not None and self.causal != reading.causal:
            seen = "some of its positions see" if self.causal else "no position of it sees"
            problems.append(f"causal={self.causal}, but {seen} what comes later; leave causal out")
        search = Search(self.net, self._trial())
        if not search.depends_on_others:
            return [*problems, "its answers do not depend on other tokens of a sequence: there is no count to find"]
        mixers, wrong = self._find(search, names)
        if mixers is None and self.ask is None:
            search, mixers = self._with_own_start(search, names)
        if self.prefix is not None and self.prefix != self.reading.prefix:
            begins = f"the sequence begins at position {self.reading.prefix}"
            problems.append(f"prefix={self.prefix}, but {begins}; leave prefix out")
        if mixers is None:
            return list(dict.fromkeys([*problems, wrong]))
        self.mixers = mixers
        self.points = {f"blocks.{layer}.{MIXER}": point for layer, point in enumerate(mixers.points)}
        with warnings.catch_warnings():  # a TransformerBridge warns where writing has no effect, which is tried here
            warnings.simplefilter("ignore")
            extra, unfit = extra_points(search, mixers, self.hooks)
        self.points |= {name: point for name, point in extra.items() if self.ask is None or not name.endswith(QUERIES)}
        self.config = self._sizes(search)
        if self.ask is None and reading.causal and GUESSED < reading.accuracy < 0.75 and self._all_the_same():
            self.notes.append(NO_START)
        return list(dict.fromkeys(problems + unfit))

    def _read(self) -> tuple[Reading | None, list[str]]:
        if self.ask is None:
            return find_reading(self.net, self.T, self.L, encode=self.encode, read=self.read)
        if self.encode is not None:
            return None, ["ask= makes the whole input: no encode= beside it"]
        return find_questions(self.net, self.T, self.L, ask=self.ask, at=self.at, read=self.read)

    def _find(self, search: Search, names: list[str]) -> tuple[Mixers | None, str]:
        """The mixers, and what is wrong where there are none."""
        if names:
            return search.named(names)
        if TRANSFORMER_LENS.format(layer=0) in self.net.parts:
            mixers, _ = search.named([TRANSFORMER_LENS])
            if mixers is not None:
                return mixers, ""
        mixers, late = search.mixers()
        if late:
            return mixers, LATE.format(late[0])
        return mixers, NOWHERE if self.ask is None else IN_LIST

    def _with_own_start(self, search: Search, names: list[str]) -> tuple[Search, Mixers | None]:
        """The same for a model that puts a start of its own before the tokens, so that blocks see one position more."""
        reading, how = self.reading, (*self.reading.how, "a start of its own in front")
        prefix, positions = reading.prefix + 1, reading.positions + 1
        self.reading = dataclasses.replace(reading, prefix=prefix, positions=positions, how=how)
        with_start = Search(self.net, self._trial())
        mixers, _ = self._find(with_start, names)
        if mixers is None:
            self.reading = reading
            return search, None
        return with_start, mixers

    def _trial(self) -> Trial:
        reading = self.reading
        rows = next(n for n in TRIAL_ROWS if n != reading.positions)
        rng = torch.Generator().manual_seed(0)
        here, there, elsewhere = torch.randint(self.T, (3, rows, self.L), generator=rng)
        if isinstance(reading, Questions):
            here, there, elsewhere = self._on_device(here, there, elsewhere)
            asked = here[:, 0]
            inputs = [reading.ask(here, asked), reading.ask(there, asked), reading.ask(elsewhere, (asked + 1) % self.T)]
            return Trial((inputs[0], inputs[1], inputs[2]), reading.outside, reading.read, (rows, reading.positions))
        there[:, -1], elsewhere[:, -1] = here[:, -1], (here[:, -1] + 1) % self.T
        inputs = [reading.encode(tokens) for tokens in self._on_device(here, there, elsewhere)]
        listener = torch.tensor([reading.prefix + self.L - 1])
        size = (rows, reading.positions)
        return Trial((inputs[0], inputs[1], inputs[2]), listener, lambda output: reading.read(output)[:, -1], size)

    def _sizes(self, search: Search) -> AdapterSpec:
        pattern, hidden = f"blocks.0.{PATTERN}", f"blocks.{len(self.mixers.points) - 1}.{HIDDEN}"
        shapes: dict[str, Tensor] = {}
        look = [(self.points[name], partial(_keep, shapes, name)) for name in (pattern, hidden) if name in self.points]
        self.net.run(search.trial.here, look, search.trial.size)
        weights = shapes.get(pattern)
        asks = isinstance(self.reading, Questions)
        return AdapterSpec(
            name=self.name,
            T=self.T,
            L=self.L,
            d=self.mixers.widths[0],
            p=shapes[hidden].shape[-1] if hidden in shapes else 0,
            n_layers=len(self.mixers.points),
            n_heads=1 if weights is None else weights.shape[1],
            n_positions=self.L if asks else self.reading.positions,
            prefix=self.reading.prefix,
            softmax=weights is not None and bool((weights.sum(-1) - 1).abs().max() < 1e-3),
            causal=self.reading.causal,
            can=("pattern",) if weights is not None and not asks else (),
            asks=asks,
        )

    def _all_the_same(self) -> bool:
        logits = self.run_with_hooks(torch.arange(self.T)[:, None].expand(-1, self.L))
        return bool((logits - logits[:, :1]).abs().max() <= 1e-4 * logits.abs().max())

    # --- telling -----------------------------------------------------------------------------------------------

    @property
    def _blocks(self) -> str:
        return "1 block" if self.config.n_layers == 1 else f"{self.config.n_layers} blocks"

    def __repr__(self) -> str:
        right = f"{sampled(self.reading.accuracy)} right"
        return f"<Adapter of {self.name}, T={self.T}, L={self.L}, {self._blocks}, {right}>"

    def __str__(self) -> str:
        """What was found, with shapes and checks."""
        config, mixers = self.config, self.mixers
        width = f"[row, {self.reading.positions}, {mixers.widths[0]}]"
        sees = "one question at a time" if config.asks else "causal" if config.causal else "bidirectional"
        pattern = self.points.get(f"blocks.0.{PATTERN}")
        lines = [
            ("model", f"{self.name}, {self._blocks}, {sees}"),
            ("mixer", f"{mixers.template} {width}"),
            ("", "checked: its values from another sequence turn the answer into that sequence's"),
            *(("" if i else "reads", how) for i, how in enumerate(self.reading.how)),
            ("accuracy", f"{sampled(self.reading.accuracy)} of sampled answers (paper sampler)"),
            ("pattern", _pattern_line(pattern, config.n_heads)),
            *(("note", note) for note in self.notes),
        ]
        return "\n".join([repr(self), *(f"  {label:<9} {text}" for label, text in lines)])


def _keep(cache: dict[str, Tensor], name: str, value: Tensor, hook: Any) -> None:
    cache[name] = value.clone()


def _pattern_line(pattern: Point | None, n_heads: int) -> str:
    if pattern is None:
        return "none can be had: no module and no softmax over positions, so probes of attention are left out"
    heads = "1 head" if n_heads == 1 else f"{n_heads} heads, 0 to {n_heads - 1}"
    where = f"opened inside {pattern.name}" if pattern.name in PARTS else pattern.name
    return f"{where}, {heads}"


__all__ = ["Adapter", "AdapterSpec"]
