"""The runs behind `probes.transplants`: recording worths and adding them. Everything is differentiable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from counting_interp.models.cost import batch_size
from counting_interp.models.protocol import CountingModel
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.designs import Roles, TransplantDesign

T_TOKEN, S_TOKEN, Q_TOKEN, U_TOKEN = range(4)  # columns of a design's tokens
OWN, RELATION, INVENTORY, NULL = (T_TOKEN, T_TOKEN), (S_TOKEN, S_TOKEN), (Q_TOKEN, T_TOKEN), (Q_TOKEN, S_TOKEN)
T_HEARS_U, T_HEARS_S, Q_HEARS_U = (T_TOKEN, U_TOKEN), (T_TOKEN, S_TOKEN), (Q_TOKEN, U_TOKEN)
FAINT, LOUDEST = 0.02, 20.0  # loudness is 1 where q hears less than FAINT of own; largest lambda


def mixer_output(block: int) -> str:
    return f"blocks.{block}.hook_attn_out"


def query(block: int) -> str:
    return f"blocks.{block}.attn.hook_q"


def shows_queries(model: CountingModel) -> bool:
    points: Any = getattr(model, "points", None) or getattr(model, "hook_dict", {})  # of an adapter, of a hooked model
    return all(query(block) in points for block in range(model.config.n_layers))


def record_worths(
    model: CountingModel, design: TransplantDesign, *, forgetful: bool = True
) -> tuple[Float[Tensor, "count pair class"], Float[Tensor, "block kinds move pair d_model"]]:
    """Record the worths of every block.

    Args:
        forgetful: in the blocks before the recorded one, every mixer writes its output for a token that occurs once.
            So each block is measured as if it were the first that mixes, and P1 and P2 hold in it. Otherwise a later
            block may pass an earlier count on, which looks like a match.

    Returns:
        Logits on sequences with each count of t, and what each transplant of KINDS adds in every block, with loudness
        and phase. If forgetful and the model shows its queries, a second inventory and a second null come last: the
        worths to positions of t and of s that have the queries of q.
    """
    alone = _alone(model, design) if forgetful and model.config.n_layers > 1 else []
    roles = (OWN, RELATION, INVENTORY, NULL, T_HEARS_U, T_HEARS_S, Q_HEARS_U)
    runs = [_outputs(model, design, each, alone) for each in roles]
    outputs = torch.stack([written for _, written in runs], 1)  # [block, run, count, pair, d_model]
    start, end = design.ends.T
    own, relation, inventory, null, t_of_u, t_of_s, q_of_u = (outputs[:, :, end] - outputs[:, :, start]).unbind(1)
    near, fraction = design.shift
    pairs = torch.arange(len(design.tokens), device=near.device)
    phase = fraction[..., None] * (outputs[:, 0, near, pairs] - outputs[:, 0, start])
    loudness = _loudness(own, t_of_u - t_of_s, q_of_u - null)
    added = [own, relation, loudness * inventory, loudness * null]
    if forgetful and shows_queries(model):
        asking = _asking(model, design, (OWN, RELATION, T_HEARS_U, T_HEARS_S), alone)
        inventory, null, of_u, of_s = (written[:, end] - written[:, start] for written in asking)
        loudness = _loudness(own, t_of_u - t_of_s, of_u - of_s)
        added += [loudness * inventory, loudness * null]
    return runs[0][0], torch.stack([phase, *(phase + worth for worth in added)], 1)


def _loudness(
    own: Float[Tensor, "*n d_model"], by_t: Float[Tensor, "*n d_model"], by_q: Float[Tensor, "*n d_model"]
) -> Float[Tensor, "*n 1"]:
    """How much more copies of u instead of s are worth to t than to q; 1 where that is next to nothing to q."""
    size = by_q.square().sum(-1, keepdim=True)
    heard = size > FAINT**2 * own.square().sum(-1, keepdim=True)
    return torch.where(heard, (by_t * by_q).sum(-1, keepdim=True) / size.clamp_min(1e-30), 1.0).clamp(0, LOUDEST)


def _asking(
    model: CountingModel, design: TransplantDesign, roles: Sequence[Roles], alone: list[Tensor]
) -> list[Float[Tensor, "block count pair d_model"]]:
    """For each of the roles, the mixer outputs of every block at a listener that has, in that block, the queries of q.

    Without earlier counts a query depends on no copies, so it is recorded once.
    """
    written = []
    for block in range(model.config.n_layers):
        earlier = [_held(design, each, alone)[:block] if block else None for each in (INVENTORY, *roles)]
        asked = record(model, design.sequences(INVENTORY), design.at, earlier[0], kept=[query(block)])[1][0]
        runs = zip(roles, earlier[1:], strict=True)
        written.append(
            [record(model, design.sequences(each), design.at, held, asked=asked)[1][block] for each, held in runs]
        )
    return [torch.stack(blocks) for blocks in zip(*written, strict=True)]


def _outputs(
    model: CountingModel, design: TransplantDesign, roles: Roles, alone: list[Float[Tensor, "block slot pair d_model"]]
) -> tuple[Float[Tensor, "count pair class"], Float[Tensor, "block count pair d_model"]]:
    tokens = design.sequences(roles)
    said, written = record(model, tokens, design.at)
    if not alone:
        return said, written
    held = _held(design, roles, alone)
    later = [record(model, tokens, design.at, held[:block])[1][block] for block in range(1, len(written))]
    return said, torch.stack([written[0], *later])


def _held(
    design: TransplantDesign, roles: Roles, alone: list[Float[Tensor, "block slot pair d_model"]]
) -> Float[Tensor, "block count pair pos d_model"]:
    """The mixer outputs of `alone` at every position of `design.sequences(roles)`."""
    listener, copied = roles
    held = torch.where(design.filled(roles)[None, :, :, None, None], alone[copied][:, None], alone[-1][:, None])
    held[:, :, 0] = alone[listener][:, None, 0]
    held = held.transpose(2, 3)  # [block, count, pair, slot, d_model]
    return torch.empty_like(held).scatter_(3, design.order[:, :, None].expand_as(held), held)


def _alone(model: CountingModel, design: TransplantDesign) -> list[Float[Tensor, "block pos pair d_model"]]:
    """Mixer outputs for t, s, q and u when each occurs once, at each position in the order of the copies.

    The last entry has those of the fillers around a single t.
    """
    tokens = [record(model, lonely(design, role), design.order.T)[1] for role in range(4)]
    around = design.sequences(OWN)[:1].expand(design.order.shape[1], -1, -1)
    return [*tokens, record(model, around, design.order.T)[1]]


def lonely(design: TransplantDesign, role: int) -> Int[Tensor, "pos pair pos"]:
    """Sequences in which a token occurs once, at each position in the order of the copies."""
    slots = torch.arange(design.order.shape[1], device=design.order.device)
    held = torch.where(slots == slots[:, None, None], design.tokens[:, role, None], design.fillers)
    return torch.empty_like(held).scatter_(-1, design.order.expand_as(held), held)


def record(
    model: CountingModel,
    tokens: Int[Tensor, "*rows pos"],
    at: Int[Tensor, "*tail"],
    held: Float[Tensor, "held *rows pos d_model"] | None = None,
    *,
    kept: Sequence[str] | None = None,
    asked: Float[Tensor, "*rows head d_head"] | None = None,
) -> tuple[Float[Tensor, "*rows class"], Float[Tensor, "point *rows *dims"]]:
    """Logits and mixer outputs at `at`, with the first blocks' mixer outputs patched by `held` at every position.

    Args:
        kept: hook points to record instead of the mixer outputs.
        asked: queries at `at` of the first block that is not patched.
    """
    size, prefix = batch_size(model.config), model.config.prefix
    kept = [mixer_output(block) for block in range(model.config.n_layers)] if kept is None else kept
    rows, at = tokens.flatten(0, -2), at.expand(tokens.shape[:-1]).flatten()
    given = list[Tensor]() if held is None else list(held.flatten(1, -3))
    said, written = [], []
    for batch in torch.arange(len(rows), device=rows.device).split(size):
        row, position, found = torch.arange(len(batch), device=rows.device), prefix + at[batch], list[Tensor]()

        def patch(value: Tensor, hook: Any, there: Tensor, batch: Tensor = batch) -> Tensor:
            end = prefix + rows.shape[1]  # the output at `$` is set to zero
            return torch.cat([0 * value[:, :prefix], there[batch], value[:, end:]], 1)

        def ask(value: Tensor, hook: Any, where: Any = (row, position), batch: Tensor = batch) -> Tensor:
            return value.index_put(where, asked.flatten(0, -3)[batch])  # type: ignore[union-attr]

        def keep(value: Tensor, hook: Any, where: Any = (row, position), found: list[Tensor] = found) -> None:
            found.append(value[where])

        points: list[Any] = [(mixer_output(block), partial(patch, there=there)) for block, there in enumerate(given)]
        points += [] if asked is None else [(query(len(given)), ask)]
        points += [(point, keep) for point in kept]
        said.append(model.run_with_hooks(rows[batch], fwd_hooks=points)[row, at[batch]])
        written.append(torch.stack(found))
    return torch.cat(said).unflatten(0, tokens.shape[:-1]), torch.cat(written, 1).unflatten(1, tokens.shape[:-1])


def transplanted(
    model: CountingModel, design: TransplantDesign, layer: int, worths: Float[Tensor, "kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """Logits at the listener's position when a worth is added to the mixer output at every position of t."""
    if isinstance(model, CountingTransformer):
        return resumed(model, design, layer, worths)
    return hooked(model, design, layer, worths)


def hooked(
    model: CountingModel, design: TransplantDesign, layer: int, worths: Float[Tensor, "kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """The definition of `transplanted`: a hook on the mixer's output."""
    shape = worths.shape[:-1]
    base = design.sequences(OWN)[design.ends[:, 0]]
    copies = design.copies(design.moves[:, 0])
    flat = (base.expand(*shape, -1), copies.expand(*shape, -1), design.at.expand(shape)[..., None], worths)
    batches = zip(*(x.flatten(0, 2).split(batch_size(model.config)) for x in flat), strict=True)
    said = []

    def add(positions: Tensor, worth: Tensor, value: Tensor) -> Tensor:
        return value + within(value, positions, model) * worth[:, None]

    for tokens, positions, at, worth in batches:
        logits = run_changed(model, tokens, {layer: partial(add, positions, worth)})
        said.append(logits[torch.arange(len(tokens), device=tokens.device), at[:, 0]])
    return torch.cat(said).unflatten(0, shape)


def resumed(
    model: CountingTransformer, design: TransplantDesign, layer: int, worths: Float[Tensor, "kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """Equal to `hooked`, but runs only what follows the transplant, and in the last block only one position."""
    prefix, last = model.config.prefix, layer == model.config.n_layers - 1
    at, pairs = prefix + design.at, torch.arange(len(design.at), device=design.at.device)
    streams = list[Tensor]()
    for tokens in design.sequences(OWN):  # of one count at a time

        def keep(value: Tensor, hook: Any) -> None:
            streams.append(value[pairs, at] if last else value)

        model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.hook_resid_mid", keep)])
    stream = torch.stack(streams)[design.ends[:, 0]]  # [move, pair, (inner_pos), d_model]
    if last:
        mixed = stream + worths
        block = model.blocks[layer]
        return block.mlp(block.ln2(mixed))
    positions = nn.functional.pad(design.copies(design.moves[:, 0]), (prefix, 0))[..., None]
    said = []
    for worth in worths:
        x = (stream + positions * worth[:, :, None]).flatten(0, 1)
        x = model.blocks[layer].mlp(model.blocks[layer].ln2(x))
        for block in model.blocks[layer + 1 :]:
            x = block(x)
        said.append(x.unflatten(0, worth.shape[:2])[:, pairs, at])
    return torch.stack(said)


def relayed(model: CountingModel, design: TransplantDesign) -> Float[Tensor, "count pair class"]:
    """Logits when every copy but the listener has, in all blocks, the mixer outputs of a token that occurs once."""
    _, written = record(model, lonely(design, T_TOKEN), design.order.T)  # [block, slot, pair, d_model]
    by_position = torch.empty_like(written).scatter_(1, design.order.T[None, ..., None].expand_as(written), written)
    alone = nn.functional.pad(
        by_position.transpose(1, 2), (0, 0, model.config.prefix, 0)
    )  # [block, pair, pos, d_model]
    others = design.copies(design.counts).scatter(-1, design.at[:, None].expand(len(design.counts), -1, 1), False)
    said = []

    def swap(positions: Tensor, patch: Tensor, value: Tensor) -> Tensor:
        patch = nn.functional.pad(patch, (0, 0, 0, value.shape[1] - patch.shape[1]))
        return torch.where(within(value, positions, model), patch, value)

    for tokens, positions in zip(design.sequences(OWN), others, strict=True):
        changes = {block: partial(swap, positions, patch) for block, patch in enumerate(alone)}
        logits = run_changed(model, tokens, changes)
        said.append(logits[torch.arange(len(tokens), device=tokens.device), design.at])
    return torch.stack(said)


def elsewhere(model: CountingModel, design: TransplantDesign, layer: int) -> Float[Tensor, "move pair class"]:
    """Logits when block `layer`'s mixer outputs at all positions without t are patched from a run with i1 copies of t.

    The answer moves by what those positions gather of t and pass on. They hold t at neither end of the move.
    """
    tokens, written = design.sequences(OWN), list[Tensor]()
    for rows in tokens:
        run_changed(model, rows, {layer: written.append})
    said = []

    def write(others: Tensor, there: Tensor, value: Tensor) -> Tensor:
        return torch.where(others, there, value)

    for (start, end), most in zip(design.ends.tolist(), design.moves.amax(1), strict=True):
        others = ~within(written[end], design.copies(most), model)
        logits = run_changed(model, tokens[start], {layer: partial(write, others, written[end])})
        said.append(logits[torch.arange(len(others), device=others.device), design.at])
    return torch.stack(said)


def run_changed(
    model: CountingModel,
    tokens: Int[Tensor, "row pos"],
    changes: Mapping[int, Callable[[Tensor], Tensor | None]],
    point: Callable[[int], str] = mixer_output,
) -> Float[Tensor, "row pos class"]:
    """Logits when each block's activation at a hook point is replaced by a function of it; None leaves it unchanged."""

    def hook(change: Callable[[Tensor], Tensor | None]) -> Callable[[Tensor, Any], Tensor | None]:
        return lambda value, hook: change(value)

    return model.run_with_hooks(tokens, fwd_hooks=[(point(block), hook(change)) for block, change in changes.items()])


def within(
    value: Float[Tensor, "row inner_pos *dims"], positions: Bool[Tensor, "*rows pos"], model: CountingModel
) -> Bool[Tensor, "*rows inner_pos *ones"]:
    """The mask of positions padded to the residual stream, which may begin before a sequence and end after it."""
    before = model.config.prefix
    padded = nn.functional.pad(positions, (before, value.shape[1] - before - positions.shape[-1]))
    return padded.reshape(*padded.shape, *[1] * (value.ndim - 2))
