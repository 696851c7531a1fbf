"""State_dicts without a configuration: which models could these shapes be, and which of them counts?

Two layouts are known. One is ours, as `torch.save(model.state_dict(), ...)` writes it. The other is that of the paper's
authors. It has `semantic_emb.weight` [vocab, d_model], and `token_mixer.Q` and `.K` [d_model, d_model], applied as
x @ Q, or `token_mixer.A` [query, key]. `fc1` and `fc2` are as torch's Linear stores them, [out, in]. These variants
never use the positional table.

Their two-layer files add `token_mixer2`, `fc3` and `fc4`. The code that trained them feeds the embeddings to the second
block too, so the first block has no effect. Such a file *is* a one-layer model made of the second block, unless it was
trained with the wiring that the paper describes.

Readings that the shapes leave open are tried on fresh sequences, with both samplers: a model trained by the published
code has never seen a count of L. The score of a reading is its accuracy under the better sampler, rescaled so that the
best constant answer has 0 and perfection 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from counting_interp.models import task
from counting_interp.models.checkpoint.contents import check_shapes
from counting_interp.models.config import ENDINGS, CountingConfig
from counting_interp.models.cost import MULTIPLICATIONS, PATIENCE, cost_of_sequence, share_right
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import OWN_MODEL, Refused, printable, quoted
from counting_interp.util.text import duration, sampled

PREFIXES = ("module.", "_orig_mod.")
UNUSED = ("positional_emb.pe", "positional_emb.embedding.weight")


@dataclass(frozen=True)
class Candidate:
    """One way to read the tensors: a configuration, and the weights under our names."""

    config: CountingConfig
    weights: dict[str, Tensor]

    def model(self) -> CountingTransformer:
        return CountingTransformer(self.config, self.weights)


@dataclass(frozen=True)
class Bare:
    """A state_dict in our names, and what its layout says beside the shapes.

    Attributes:
        stacks: the blocks that may make up the model, most usual reading first.
        L: the length of a sequence, where the layout fixes it.
        published: whether the layout is that of the paper's authors.
        notes: for the user, about ignored tensors.
    """

    embeddings: Tensor
    stacks: list[list[dict[str, Tensor]]]
    positions: Tensor | None = None
    L: int | None = None
    published: bool = False
    notes: list[str] = field(default_factory=list)


def without_prefixes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by name, without the prefixes of DataParallel and torch.compile."""
    by_name: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        while name.startswith(PREFIXES):
            name = name.removeprefix(PREFIXES[0]).removeprefix(PREFIXES[1])
        if name in by_name:
            raise Refused(f"holds the tensor {quoted(name)} twice, with and without a prefix")
        by_name[name] = tensor
    return by_name


def recognise(tensors: dict[str, Tensor]) -> Bare:
    """The layout of a state_dict. A Refused error names a tensor that does not belong."""
    if "semantic_emb.weight" in tensors:
        return _published(tensors)
    if "embed.W_E" in tensors:
        return _ours(tensors)
    if any(name.startswith("layer1.semantic_emb") for name in tensors):
        raise Refused("is a published run on random embeddings; its file does not contain them, so it cannot be used")
    names = ", ".join(quoted(name, 40) for name in sorted(tensors)[:3])
    raise Refused(
        f"is not a counting model: it holds {names}, but neither 'embed.W_E' nor 'semantic_emb.weight'. {OWN_MODEL}"
    )


def _ours(tensors: dict[str, Tensor]) -> Bare:
    rest = dict(tensors)
    embeddings, positions = rest.pop("embed.W_E"), rest.pop("pos_embed.W_pos", None)
    blocks = [
        {name.removeprefix(prefix): rest.pop(name) for name in list(rest) if name.startswith(prefix)}
        for prefix in ("blocks.0.", "blocks.1.")
    ]
    _check_none_left(rest)
    return Bare(embeddings, [[block for block in blocks if block]], positions)


def _published(tensors: dict[str, Tensor]) -> Bare:
    rest = dict(tensors)
    embeddings = rest.pop("semantic_emb.weight")
    positions = [rest.pop(name) for name in UNUSED if name in rest]
    first, second = _published_block(rest, "", "1", "2"), _published_block(rest, "2", "3", "4")
    _check_none_left(rest)
    length = next((table.shape[-1 if table.shape[0] == 1 else 0] for table in positions if table.ndim == 2), None)
    notes = ["the positional table in the file plays no part in these variants"] if positions else []
    return Bare(embeddings, [[second], [first, second]] if second else [[first]], None, length, True, notes)


def _published_block(rest: dict[str, Tensor], mixer: str, inner: str, outer: str) -> dict[str, Tensor]:
    """Move one block out of `rest`. The weights of linear layers are transposed."""
    ours = {
        f"token_mixer{mixer}.A": "attn.A",
        f"token_mixer{mixer}.Q": "attn.W_Q",
        f"token_mixer{mixer}.K": "attn.W_K",
        f"fc{inner}.weight": "mlp.W_in",
        f"fc{inner}.bias": "mlp.b_in",
        f"fc{outer}.weight": "mlp.W_out",
        f"fc{outer}.bias": "mlp.b_out",
    }
    block = {}
    for theirs, name in ours.items():
        if theirs in rest:
            tensor = rest.pop(theirs)
            block[name] = tensor.T if theirs.endswith("weight") and tensor.ndim == 2 else tensor
    return block


def _check_none_left(rest: dict[str, Tensor]) -> None:
    if rest:
        raise Refused(f"has the tensor {quoted(min(rest))}, which no counting model has")


def candidates(bare: Bare, assume: Mapping[str, Any]) -> list[Candidate]:
    """Every valid reading of the shapes that agrees with `assume`; at least one.

    Raises:
        Refused: no reading is valid, or none agrees.
    """
    fitting: list[Candidate] = []
    reason = "its shapes fit no counting model"
    for fields, weights in (reading for stack in bare.stacks for reading in _readings(bare, stack)):
        try:
            config = CountingConfig(**fields)
            check_shapes(weights, config)
            fitting.append(Candidate(config, weights))
        except (ValueError, Refused) as error:
            reason = printable(str(error))
    if not fitting:
        raise Refused(f"is not a counting model: {reason}")
    agreeing = [c for c in fitting if all(getattr(c.config, name) == value for name, value in assume.items())]
    if not agreeing:
        given = ", ".join(f"{name}={value!r}" for name, value in assume.items())
        allowed = "; ".join(dict.fromkeys(describe(candidate.config) for candidate in fitting))
        raise Refused(f"cannot be read with {given}; its shapes allow {allowed}")
    return agreeing


def describe(config: CountingConfig) -> str:
    return f"{config.name} (T={config.T}, L={config.L}, {config.n_layers} layer{'s'[: config.n_layers - 1]})"


def _readings(bare: Bare, stack: list[dict[str, Tensor]]) -> list[tuple[dict[str, Any], dict[str, Tensor]]]:
    """Configuration fields and weights of each reading, not yet validated."""
    weights = {"embed.W_E": bare.embeddings}
    weights |= {} if bare.positions is None else {"pos_embed.W_pos": bare.positions}
    weights |= {f"blocks.{i}.{name}": tensor for i, block in enumerate(stack) for name, tensor in block.items()}
    if bare.embeddings.ndim != 2 or not stack:
        raise Refused("is not a counting model: its embeddings are not a table, or it has no blocks")
    for name, axes in {"mlp.W_in": 2, "mlp.b_out": 1}.items():
        if name not in stack[-1] or stack[-1][name].ndim != axes:
            raise Refused(f"is not a counting model: the weights {name} are missing or have the wrong number of axes")
    rows, d = bare.embeddings.shape
    classes = len(stack[-1]["mlp.b_out"])
    if "attn.A" in stack[-1]:
        alphabets, lengths = {"lin": rows}, [([0, *stack[-1]["attn.A"].shape])[-1]]
    else:
        alphabets = {"dot": rows, "bos": rows - 1}
        lengths = [bare.L] if bare.L is not None else [classes - 1] if bare.published else [classes, classes - 1]
    sizes = {"d": d, "p": stack[-1]["mlp.W_in"].shape[1], "n_layers": len(stack), "n_classes": classes}
    dtype = "float64" if "float64" in str(bare.embeddings.dtype) else "float32"
    shown_options, open_options = _beyond(weights, stack[-1])
    fixed = {**sizes, "dtype": dtype, **shown_options}
    return [
        ({"mixing": mixing, "softmax": softmax, "T": T, "L": L, **fixed, **tried}, weights)
        for tried in (open_options[:1] if bare.published else open_options)
        for L in lengths
        for mixing, T in alphabets.items()
        for softmax in (True, False)
    ]


def _beyond(weights: dict[str, Tensor], block: dict[str, Tensor]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The options beyond the paper that the tensors show, and every combination of those that they do not show."""
    by_head = [tensor.shape[0] for name, tensor in block.items() if name.startswith("attn.") and tensor.ndim == 3]
    shown_options: dict[str, Any] = {"n_heads": (*by_head, 1)[0]}
    open_options: list[dict[str, Any]] = [{}]
    plain = CountingConfig("dot", softmax=True, T=2, L=2, d=1, p=1)
    for option in ENDINGS.values():
        off = {name: getattr(plain, name) for name in option}
        shown = {p.name for p in plain.replace(**option).parameters} - {p.name for p in plain.parameters}
        if shown:
            shown_options |= option if shown <= weights.keys() else off
        else:
            open_options = [{**settled, **choice} for choice in (off, option) for settled in open_options]
    return shown_options, open_options


SEQUENCES, FEWEST = 1000, 8  # on which a reading is tried
SECONDS = 3  # for all trials together
TRIED_SAMPLERS = ("published", "paper")
COUNTS = 0.95  # with this accuracy as one of the paper's blocks, readings with options are not tried
SURE, LIKELY = 6.0, 3.0  # standard errors between the best reading and the next


@dataclass(frozen=True)
class Trial:
    """How well one reading counts.

    Attributes:
        score: 0 for the best constant answer, 1 for perfection.
        error: its standard error; sequences are the independent units.
    """

    config: CountingConfig
    sampler: str
    sequences: int
    accuracy: float
    score: float
    error: float

    def __str__(self) -> str:
        return f"{describe(self.config)} with {sampled(self.accuracy)}"


def most_plausible(candidates: list[Candidate]) -> tuple[CountingTransformer, list[str]]:
    """The model that counts best, and one sentence on how sure that is. A single candidate is not tried.

    Raises:
        Refused: trying all readings would take too long.
    """
    if len(candidates) == 1:
        return candidates[0].model(), []
    n = _affordable(candidates)
    trials: list[Trial] = []
    for candidate in sorted(candidates, key=lambda candidate: bool(candidate.config.extras)):
        if candidate.config.extras and any(not t.config.extras and t.accuracy >= COUNTS for t in trials):
            continue  # no tensor shows GELU or a causal block, and without them the model counts
        model = candidate.model()  # one at a time: they may be large
        trials.append(max((_trial(model, sampler, n) for sampler in TRIED_SAMPLERS), key=lambda trial: trial.score))
    best, *others = sorted(trials, key=lambda trial: -trial.score)
    sureness = "sure"
    if others:
        second = others[0]
        if _level(best, second):
            best, second = sorted((best, second), key=lambda trial: (-trial.config.T, -trial.config.L))
        elif _plainer(second, best):
            best, second = second, best
        sureness = f"next best: {second}; {_how_sure(best, second)}"
    chosen = next(candidate for candidate in candidates if candidate.config == best.config)
    return chosen.model(), [
        f"{describe(best.config)}, because so it is correct at {sampled(best.accuracy)} of positions in "
        f"{best.sequences:,} fresh sequences ({best.sampler} sampler); {sureness}"
    ]


def _gap(best: Trial, second: Trial) -> float:
    return (best.score - second.score) / (best.error**2 + second.error**2) ** 0.5


def _level(best: Trial, second: Trial) -> bool:
    """Whether both count equally well and differ only in T and L, by one token or one position."""
    first, other = ((trial.config.softmax, trial.config.n_layers, trial.config.extras) for trial in (best, second))
    return _gap(best, second) < LIKELY and first == other


def _plainer(first: Trial, other: Trial) -> bool:
    """Whether both count equally well and the first has fewer options that no tensor shows: GELU, or causal."""
    return abs(_gap(first, other)) < LIKELY and len(first.config.extras) < len(other.config.extras)


def _how_sure(best: Trial, second: Trial) -> str:
    if best.score < SURE * best.error:
        return "no more than a guess, as no reading counts better than a constant answer would"
    if _level(best, second):
        return "likely: so it counts equally well, with more tokens or in longer sequences"
    if _plainer(best, second):
        return "likely: the other reading counts equally well, but has more than the file shows"
    if _gap(best, second) < LIKELY:
        return "no more than a guess between the two"
    return "sure" if _gap(best, second) >= SURE else "likely"


def _affordable(candidates: list[Candidate]) -> int:
    """The number of sequences per reading and sampler with which all trials together take seconds."""
    cost = len(TRIED_SAMPLERS) * sum(cost_of_sequence(candidate.config) for candidate in candidates)
    if FEWEST * cost > PATIENCE * MULTIPLICATIONS:
        seconds = duration(FEWEST * cost / MULTIPLICATIONS)
        raise Refused(
            f"can be read in {len(candidates)} ways, and trying them takes about {seconds}; "
            "say what it is: mixing, softmax, T, L, activation, causal"
        )
    return max(FEWEST, min(SEQUENCES, SECONDS * MULTIPLICATIONS // cost))


def _trial(model: CountingTransformer, sampler: str, n: int) -> Trial:
    T, L = model.config.T, model.config.L
    correct = share_right(model, task.sample(sampler, n, T=T, L=L, generator=0))
    constant = float(task.label_distribution(sampler, T=T, L=L, causal=model.config.causal).max())
    scale = max(1 - constant, 1 / L)
    spread = float((correct.var() + 1 / n) / n) ** 0.5  # never zero, even where all are correct
    accuracy = float(correct.mean())
    return Trial(model.config, sampler, n, accuracy, (accuracy - constant) / scale, spread / scale)
