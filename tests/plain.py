"""Counting models as people write them: a torch module, some of whose parts serve as hook points."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from counting_interp.models import CountingTransformer
from counting_interp.models.blocks import DotProductMixer

# In place of TransformerLens' names. There are no scores: what softmax makes of them is all that can be reached.
PLAIN_MIXER = "layers.{layer}.o"
PLAIN_HOOKS = {
    "hook_resid_pre": "layers.{layer}.reads",
    "attn.hook_v": "layers.{layer}.values",
    "attn.hook_pattern": "layers.{layer}.pattern",
    "attn.hook_z": "layers.{layer}.gathered",
    "mlp.hook_pre": "layers.{layer}.up",
}


class PlainLayer(nn.Module):
    """One head, no norm; with `skip`, a residual around the feed-forward layer."""

    def __init__(self, d: int, p: int, out: int, *, skip: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(d, p), nn.Linear(p, out)
        self.reads, self.values, self.pattern, self.gathered, self.unused = (nn.Identity() for _ in range(5))
        self.looked_at = nn.Identity()  # the pattern, for eyes only
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        x = self.reads(x)
        value = self.values(self.v(x).unsqueeze(2))
        scores = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        pattern = self.pattern(scores.softmax(-1).unsqueeze(1))
        self.looked_at(pattern)
        x = x + self.o(self.gathered(torch.einsum("rhqk,rkhd->rqhd", pattern, value)).squeeze(2))
        return self.down(self.up(x).relu()) + (x if self.skip else 0)


class PlainModel(nn.Module):
    """Embedding, layers, and nothing else: the last layer writes the logits."""

    def __init__(self, vocab: int, d: int, p: int, classes: int, n_layers: int = 1) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        last = n_layers - 1
        self.layers = nn.ModuleList(
            PlainLayer(d, p, classes if layer == last else d, skip=layer < last) for layer in range(n_layers)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


@torch.no_grad()
def plain_copy(model: CountingTransformer) -> PlainModel:
    """The same function, for one-layer models of the paper with a softmax and W_Q, W_K."""
    config, block = model.config, model.blocks[0]
    copy = PlainModel(config.vocab, config.d, config.p, config.classes).to(model.W_E.dtype)
    layer, attn, mlp = copy.layers[0], block.attn, block.mlp
    assert isinstance(layer, PlainLayer)
    copy.embed.weight.copy_(model.W_E)
    assert isinstance(attn, DotProductMixer)
    for linear, weight in ((layer.q, attn.W_Q), (layer.k, attn.W_K)):
        linear.weight.copy_(weight.T)
    for linear in (layer.v, layer.o):
        nn.init.eye_(linear.weight)
    for linear, weight, bias in ((layer.up, mlp.W_in, mlp.b_in), (layer.down, mlp.W_out, mlp.b_out)):
        linear.weight.copy_(weight.T)
        linear.bias.copy_(bias)
    return copy
