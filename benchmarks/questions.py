"""Models that read a list, a separator and a token, and answer once: which counts, the list or the question?

    python -m benchmarks.questions [--seeds 3]

trains models of one and of two blocks, with free queries and with queries frozen at zero, and prints their shares.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from counting_interp.models import Adapter, task
from counting_interp.probes.questions import list_or_question

T, L, WIDTH, HEADS = 8, 5, 32, 4
SEPARATOR = T


class Asked(nn.Module):
    """Causal pre-norm blocks with absolute positions; the answer is read at the last position."""

    def __init__(self, n_layers: int = 1, *, compares: bool = True) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(T + 1, WIDTH), nn.Embedding(L + 2, WIDTH)
        self.blocks = nn.ModuleList(Block(compares=compares) for _ in range(n_layers))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, L))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Block(nn.Module):
    def __init__(self, *, compares: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, WIDTH))
        self.norm, self.compares = nn.LayerNorm(WIDTH), compares

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q * self.compares, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


def ask(sequences: Tensor, tokens: Tensor) -> Tensor:
    """The input: the list, a separator, and the token to count."""
    return torch.cat([functional.pad(sequences, (0, 1), value=SEPARATOR), tokens[:, None]], 1)


def train(n_layers: int = 1, *, compares: bool = True, seed: int = 0, steps: int = 600) -> Asked:
    """Train a model to answer how often a token occurs in the list."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = Asked(n_layers, compares=compares)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        lists = task.sample("paper", 128, T=T, L=L, generator=rng)
        asked = lists[:, 0]  # the sampler shuffles
        truth = (lists == asked[:, None]).sum(1)
        lists = lists.gather(1, torch.rand(lists.shape, generator=rng).argsort(1))
        loss = functional.cross_entropy(net(ask(lists, asked))[:, -1], truth - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net


def row(n_layers: int, *, compares: bool, seed: int) -> dict[str, Any]:
    model = Adapter(train(n_layers, compares=compares, seed=seed), T=T, L=L, ask=ask)
    result = list_or_question(model)
    shares = result.decides.shares
    return {
        "blocks": n_layers,
        "queries": "free" if compares else "zero",
        "seed": seed,
        "accuracy": f"{model.reading.accuracy:.3f}",
        "counts_in": result.counts_in,
        "label": result.decides.label,
        **{share.name: f"{share.value:.2f}" for share in (shares.rc, shares.ic, shares.gated)},
        "question_moves": " ".join(f"{moved:.2f}" for moved in result.at_question.moved.tolist()),
        "list_moves": " ".join(f"{moved:.2f}" for moved in result.at_list.moved.tolist()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Questions at the end")
    parser.add_argument("--seeds", type=int, default=3)
    torch.set_num_threads(1)
    for n_layers, compares in ((1, False), (1, True), (2, False), (2, True)):
        for seed in range(parser.parse_args().seeds):
            print(*row(n_layers, compares=compares, seed=seed).values(), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
