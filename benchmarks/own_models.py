"""Third-party transformers, trained to count and classified without editing them.

    python -m benchmarks.own_models [NAME ...]

trains each for some seconds, wraps it in `Adapter(net, T=8, L=5)`, transplants, and writes docs/tables/own-models.csv.
Configurations are tiny. The classes are those of transformers, torch and TransformerLens, or typical hand-written code.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from counting_interp.models import Adapter, task
from counting_interp.probes.transplants import transplants

T, L, WIDTH, HEADS, HIDDEN = 8, 5, 32, 4, 64
TABLE = Path(__file__).parents[1] / "docs" / "tables" / "own-models.csv"
SIZES: dict[str, Any] = {
    "vocab_size": T + 1,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 16,
}
GROUPED: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": WIDTH // HEADS}
NO_IDS: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


@dataclass(frozen=True)
class Kind:
    """A kind of model: how to make one, whether it is causal, and whether its first axis is the position."""

    make: Callable[[], nn.Module]
    causal: bool = True
    positions_first: bool = False
    steps: int = 400


def hugging_face(model: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    """An untrained model of the library transformers, by the names of its classes."""

    def make() -> nn.Module:
        import transformers

        transformers.logging.set_verbosity_error()
        sizes = {**SIZES, **NO_IDS, **options}
        made: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**sizes))
        return made

    return make


def bridge() -> nn.Module:
    """TransformerLens' own model."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    sizes = {"d_model": WIDTH, "d_head": 8, "n_heads": HEADS, "d_mlp": HIDDEN, "n_layers": 1, "n_ctx": L + 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TransformerBridge.boot_native(TransformerBridgeConfig(**sizes, d_vocab=T + 1, act_fn="gelu"))


class FusedAttention(nn.Module):
    """As in nanoGPT: one matrix for queries, keys and values, and torch's fused attention."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.c_attn(x).split(WIDTH, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class LinearAttention(nn.Module):
    """Linear attention: positive features of queries and keys instead of a softmax, and sums over the past."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k = (functional.elu(project(x)) + 1 for project in (self.q, self.k))
        past = torch.einsum("rpd,rpe->rpde", k, self.v(x)).cumsum(1)
        return self.o(torch.einsum("rpd,rpde->rpe", q, past) / (q * k.cumsum(1)).sum(-1, keepdim=True))


class StateSpace(nn.Module):
    """A Mamba-style state space: a state with input-dependent steps, and a gate. There is no attention."""

    def __init__(self, states: int = 8) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.step, self.write, self.read = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, states), nn.Linear(WIDTH, states)
        self.decay = nn.Parameter(torch.arange(1.0, states + 1).log().expand(WIDTH, states).clone())

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.enter(x).chunk(2, -1)
        step, write, read = functional.softplus(self.step(u)), self.write(u), self.read(u)
        state, said = u.new_zeros(len(u), WIDTH, write.shape[-1]), []
        for now in range(x.shape[1]):
            kept = (-step[:, now, :, None] * self.decay.exp()).exp() * state
            state = kept + (step[:, now] * u[:, now])[..., None] * write[:, now, None]
            said.append((state * read[:, now, None]).sum(-1))
        return self.leave(torch.stack(said, 1) * functional.silu(gate))


class Written(nn.Module):
    """A typical hand-written model: embeddings, one block around a mixer, an unembedding."""

    def __init__(self, mixer: nn.Module, *, mlp: bool = True) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(T + 1, WIDTH), nn.Embedding(L + 1, WIDTH)
        self.mixer, self.ln1, self.ln2, self.ln_f = mixer, *(nn.LayerNorm(WIDTH) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH)) if mlp else None
        self.unembed = nn.Linear(WIDTH, L)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = x + self.mixer(self.ln1(x))
        x = x if self.mlp is None else x + self.mlp(self.ln2(x))
        return self.unembed(self.ln_f(x))


class Encoder(nn.Module):
    """torch's encoder layer, with the position as the first axis, as is its default."""

    def __init__(self, *, norm_first: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, norm_first=norm_first)
        self.embed = nn.Embedding(T + 1, WIDTH)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(WIDTH, L)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(ids)))


GPT2 = {"n_positions": L + 1, "n_embd": WIDTH, "n_layer": 1, "n_head": HEADS}
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
KINDS = {
    "GPT-2": Kind(hugging_face("GPT2LMHeadModel", "GPT2Config", **GPT2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
    "Llama": Kind(hugging_face("LlamaForCausalLM", "LlamaConfig")),
    "Llama, grouped queries": Kind(hugging_face("LlamaForCausalLM", "LlamaConfig", **GROUPED)),
    "GPT-NeoX, parallel": Kind(hugging_face("GPTNeoXForCausalLM", "GPTNeoXConfig", use_parallel_residual=True)),
    "GPT-NeoX, sequential": Kind(hugging_face("GPTNeoXForCausalLM", "GPTNeoXConfig", use_parallel_residual=False)),
    "Gemma 2": Kind(hugging_face("Gemma2ForCausalLM", "Gemma2Config", **GROUPED)),
    "Qwen 3": Kind(hugging_face("Qwen3ForCausalLM", "Qwen3Config", **GROUPED)),
    "BERT, token classification": Kind(
        hugging_face("BertForTokenClassification", "BertConfig", num_labels=L, initializer_range=0.2, **NO_DROPOUT),
        causal=False,
        steps=600,
    ),
    "nanoGPT-style": Kind(lambda: Written(FusedAttention())),
    "nanoGPT-style, no MLP": Kind(lambda: Written(FusedAttention(), mlp=False), steps=600),
    "nn.TransformerEncoderLayer, norm first": Kind(
        lambda: Encoder(norm_first=True), causal=False, positions_first=True
    ),
    "nn.TransformerEncoderLayer, norm last": Kind(
        lambda: Encoder(norm_first=False), causal=False, positions_first=True
    ),
    "linear attention": Kind(lambda: Written(LinearAttention())),
    "state space (Mamba-style)": Kind(lambda: Written(StateSpace())),
    "TransformerBridge": Kind(bridge),
}


def with_start(tokens: Tensor) -> Tensor:
    return functional.pad(tokens, (1, 0), value=T)


def train(kind: Kind, *, seed: int = 0, start: bool = True, steps: int | None = None) -> nn.Module:
    """Train a model to count, for some seconds."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = kind.make()
    rate, steps = 5e-3, steps or kind.steps
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        tokens = task.sample("paper", 64, T=T, L=L, generator=rng)
        ids = with_start(tokens) if start else tokens
        output: Any = net(ids.T if kind.positions_first else ids)
        logits = output if isinstance(output, Tensor) else output.logits
        logits = (logits.transpose(0, 1) if kind.positions_first else logits)[:, -L:, :L]
        truth = task.running_count(tokens) if kind.causal else task.histogram(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), truth.flatten() - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net


def row(name: str) -> dict[str, Any]:
    """Train and classify one kind; a row of the table."""
    net = train(KINDS[name])
    began = time.process_time()
    model = Adapter(net, T=T, L=L, name=name)
    opened = time.process_time() - began
    result = transplants(model)
    shares = {share.name: f"{share.value:.2f}" for share in (result.shares.rc, result.shares.ic, result.shares.gated)}
    return {
        "model": name,
        "mixer": model.mixers.template,
        "pattern": f"{model.config.n_heads} heads" if "pattern" in model.config.can else "none",
        "queries": "hidden" if result.by_queries is None else "shown",
        "accuracy": f"{model.reading.accuracy:.3f}",
        "label": result.label or "none",
        **shares,
        "open_s": f"{opened:.2f}",
        "verdict_s": f"{time.process_time() - began:.2f}",
    }


def main() -> None:
    torch.set_num_threads(1)
    chosen = sys.argv[1:] or list(KINDS)
    rows = []
    for name in chosen:
        rows.append(row(name))
        print(*rows[-1].values(), sep=" | ", flush=True)
    if chosen == list(KINDS):
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
