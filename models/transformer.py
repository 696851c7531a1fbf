"""The counting transformer: one hooked module for all variants, with one or two layers.

This module is the definition. Every faster implementation is tested to give the same logits and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import FactoredMatrix, HookedRootModule
from transformer_lens.hook_points import HookPoint

from counting_interp.models import task
from counting_interp.models.blocks import Block, ConstantMixer, DotProductMixer, declare
from counting_interp.models.config import CountingConfig, published_initialisation
from counting_interp.models.lens import NO_UNEMBEDDING, CountingCache, check_patching, lens_config
from counting_interp.models.task import as_tokens, letters
from counting_interp.util.text import did_you_mean


class Embedding(nn.Module):
    """A look-up table; in `bos` models its last row is `$`."""

    W_E: Tensor  # [vocab, d_model]

    def __init__(self, config: CountingConfig) -> None:
        super().__init__()
        declare(self, config, "embed")

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self.W_E[tokens]


class PositionalEmbedding(nn.Module):
    """One vector for each position; in `bos` models the first is that of `$`."""

    W_pos: Tensor  # [pos, d_model]

    def __init__(self, config: CountingConfig) -> None:
        super().__init__()
        declare(self, config, "pos_embed")

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self.W_pos.expand(len(tokens), -1, -1).clone()


class CountingTransformer(HookedRootModule):
    """A small transformer that predicts, at each position, how often its token occurs.

    Args:
        config: variant and sizes.
        weights: a full state dict; the published initialisation from `config.seed` when absent.
        metadata: JSON-like facts that travel with the checkpoint (sampler, recipe, accuracy, mechanism, ...).
    """

    def __init__(
        self,
        config: CountingConfig,
        weights: dict[str, Tensor] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.embed = Embedding(config)
        self.hook_embed = HookPoint()  # [batch, pos, d_model]
        if config.positions:
            self.pos_embed = PositionalEmbedding(config)
            self.hook_pos_embed = HookPoint()  # [batch, pos, d_model]
        self.blocks: Sequence[Block] = nn.ModuleList(Block(config, layer) for layer in range(config.n_layers))  # type: ignore[assignment]
        self.to(getattr(torch, config.dtype))
        self.load_state_dict(published_initialisation(config) if weights is None else weights)
        self.eval()
        self.setup()

    # --- running -----------------------------------------------------------------------------------------------

    def forward(
        self,
        tokens: Int[Tensor, "*batch pos"] | str | Sequence[int],
        return_type: str | None = "logits",
        stop_at_layer: int | None = None,
    ) -> Any:
        """Logits [batch, pos, class] of one sequence or a batch. `$` is added here and its output dropped.

        Args:
            return_type: `logits`, `loss` (mean cross-entropy against the true counts), `both` or None.
            stop_at_layer: stop before this block and return its input [batch, inner_pos, d_model].
        """
        tokens = self.to_tokens(tokens)
        batch = self.with_bos(tokens)
        if stop_at_layer is not None:
            last = stop_at_layer + self.config.n_layers * (stop_at_layer < 0)
            if not 0 <= last < self.config.n_layers:
                raise ValueError(
                    f"stop_at_layer must name a block of this model of {self.config.n_layers}, got {stop_at_layer}; "
                    "behind the last block are the logits"
                )
            return self.run_blocks(batch, last)
        logits = self.run_blocks(batch)[:, -self.config.L :]
        if return_type in ("loss", "both"):
            classes = self.truth(batch[:, -self.config.L :]) - self.config.first_count
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), classes.flatten())
            if return_type == "loss":
                return loss
        elif return_type not in ("logits", None):
            raise ValueError(f"return_type must be 'logits', 'loss', 'both' or None, got {return_type!r}")
        logits = logits if tokens.ndim == 2 else logits[0]
        return None if return_type is None else (logits, loss) if return_type == "both" else logits

    def run_blocks(
        self, batch: Int[Tensor, "b inner_pos"], n_blocks: int | None = None
    ) -> Float[Tensor, "b inner_pos out"]:
        """The output of the first `n_blocks` blocks on sequences from `with_bos`."""
        x = self.hook_embed(self.embed(batch))
        if self.config.positions:
            x = x + self.hook_pos_embed(self.pos_embed(batch))
        for block in self.blocks[:n_blocks]:
            x = block(x)
        return x

    def truth(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        """The true count at each position; in causal models the count so far."""
        return task.running_count(tokens) if self.config.causal else task.histogram(tokens)

    def with_bos(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "b inner_pos"]:
        """Check `tokens` and prepend `$` in `bos` models.

        Sequences that already start with `$` are taken as they are. TransformerLens' patching needs them, since it
        patches the positions of the tokens it is given.
        """
        config = self.config
        tokens = torch.as_tensor(tokens, device=self.device)
        if tokens.dtype.is_floating_point or tokens.dtype.is_complex or tokens.dtype == torch.bool:
            raise ValueError(f"tokens must be integers, got {tokens.dtype}")
        if tokens.ndim not in (1, 2):
            raise ValueError(f"tokens must have shape [batch, {config.L}] or [{config.L}], got {list(tokens.shape)}")
        batch = tokens.long().reshape(-1, tokens.shape[-1])
        if config.has_bos and batch.shape[1] == config.L + 1 and bool((batch[:, 0] == config.T).all()):
            return batch
        if batch.shape[1] != config.L:
            raise ValueError(f"this model reads sequences of L={config.L} tokens, got {batch.shape[1]}")
        if batch.numel() and not 0 <= int(batch.min()) <= int(batch.max()) < config.T:
            low, high = int(batch.min()), int(batch.max())
            raise ValueError(f"tokens must lie in 0..{config.T - 1}, got values from {low} to {high}")
        if not config.has_bos:
            return batch
        return torch.cat([batch.new_full((len(batch), 1), config.T), batch], 1)

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "*batch pos"] | str | Sequence[int]) -> Int[Tensor, "*batch pos"]:
        """The predicted count at each position of a sequence: tokens, `"BBCBBBDEEE"` or a list of numbers."""
        return self(tokens).argmax(-1) + self.config.first_count

    def to_tokens(self, sequence: Int[Tensor, "*batch pos"] | str | Sequence[int]) -> Int[Tensor, "*batch pos"]:
        """The tokens of a sequence given as letters, numbers or tokens."""
        return as_tokens(sequence, self.config).to(self.device)

    def to_str_tokens(self, sequence: Int[Tensor, "pos"] | str | Sequence[int]) -> tuple[str, ...]:
        """The letters of a sequence."""
        return letters(self.to_tokens(sequence), self.config.T)

    def accuracy(
        self,
        tokens: Int[Tensor, "batch pos"] | None = None,
        *,
        n: int = 3000,
        sampler: str = "paper",
        seed: int = 0,
    ) -> float:
        """Share of positions with the correct count, on `tokens` or on `n` fresh sequences."""
        if tokens is None:
            tokens = task.sample(sampler, n, T=self.config.T, L=self.config.L, generator=seed)
        correct = [(self.predict(batch) == self.truth(batch)).sum() for batch in tokens.split(1024)]
        return float(sum(correct)) / tokens.numel()

    def count_logits(self, logits: Float[Tensor, "*batch class"]) -> Float[Tensor, "*batch count"]:
        """The logits of counts 1..L, without the class for count 0 that the published layout has."""
        return logits[..., 1 - self.config.first_count :]

    # --- looking inside ----------------------------------------------------------------------------------------

    def run_with_cache(self, *args: Any, **kwargs: Any) -> tuple[Any, CountingCache]:
        """As in TransformerLens, with an ActivationCache: `cache["pattern", 0]`."""
        names = kwargs.get("names_filter")
        self._check_hook_names([names] if isinstance(names, str) else names if isinstance(names, list) else [])
        out, cache = super().run_with_cache(*args, **kwargs)
        return out, CountingCache(cache, self, has_batch_dim=not kwargs.get("remove_batch_dim", False))

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """As in TransformerLens. Its `patching` needs tokens with `$`; see `with_bos`."""
        tokens = kwargs.get("tokens", args[0] if args else None)
        if self.config.has_bos and tokens is not None and torch.as_tensor(tokens).shape[-1] == self.config.L:
            check_patching(kwargs.get("fwd_hooks", ()))
        return super().run_with_hooks(*args, **kwargs)

    def hooks(self, fwd_hooks: list = [], bwd_hooks: list = [], *args: Any, **kwargs: Any) -> Any:  # noqa: B006
        self._check_hook_names(name for name, _ in [*fwd_hooks, *bwd_hooks])
        return super().hooks(fwd_hooks, bwd_hooks, *args, **kwargs)

    def add_hook(self, name: str | Callable[[str], bool], *args: Any, **kwargs: Any) -> None:
        self._check_hook_names([name])
        super().add_hook(name, *args, **kwargs)

    def _check_hook_names(self, names: Iterable[str | Callable[[str], bool]]) -> None:
        for name in names:
            if isinstance(name, str) and name not in self.hook_dict:
                raise ValueError(f"{self.config.name} has no hook point {name!r}; {did_you_mean(name, self.hook_dict)}")

    @property
    def cfg(self) -> SimpleNamespace:
        """The configuration as TransformerLens' tools read it."""
        return lens_config(self.config, self.device)

    # --- weights -----------------------------------------------------------------------------------------------

    @property
    def num_parameters(self) -> int:
        """Trained weights, counted as the paper counts them."""
        return self.config.num_parameters

    @property
    def device(self) -> torch.device:
        return self.embed.W_E.device

    @property
    def W_E(self) -> Float[Tensor, "vocab d_model"]:
        return self.embed.W_E

    def __getattr__(self, name: str) -> Any:
        """Weights by TransformerLens' names, stacked over layers: `W_Q` [layer, head, d_model, d_head], `W_in`, ..."""
        if name in ("W_U", "b_U", "unembed", "ln_final", "tokens_to_residual_directions"):
            raise AttributeError(f"there is no {name}: {NO_UNEMBEDDING}")
        if name not in ("W_Q", "W_K", "W_V", "W_O", "A", "W_in", "b_in", "W_out", "b_out"):
            return super().__getattr__(name)
        half = "mlp" if name.endswith(("_in", "_out")) else "attn"
        try:
            weights = [getattr(getattr(block, half), name) for block in self.blocks]
        except AttributeError:
            raise AttributeError(f"{self.config.name} has no {name}") from None
        if len({weight.shape for weight in weights}) > 1:
            raise AttributeError(
                f"{name} has another shape in the last block, which writes logits: read blocks[i].{half}.{name}"
            )
        stacked = torch.stack(weights)
        return stacked.unsqueeze(1) if half == "attn" and stacked.ndim == 3 else stacked

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of every layer and head, as in TransformerLens: scores times sqrt(d_head) are this form."""
        if not all(isinstance(block.attn, DotProductMixer) for block in self.blocks):
            raise ValueError(f"{self.config.name} has no queries and keys: its mixing matrix is constant")
        return FactoredMatrix(self.W_Q, self.W_K.mT)

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of every layer and head, as in TransformerLens. The identity without learned values."""
        return FactoredMatrix(self.W_V, self.W_O)

    def mixing_matrix(self, layer: int = 0, head: int = 0) -> Float[Tensor, "query key"]:
        """The constant pattern of a head of a `lin` block, after its softmax if it has one."""
        mixer = self.blocks[layer].attn
        if not isinstance(mixer, ConstantMixer):
            raise ValueError(f"the mixing matrix of {self.config.name} depends on the sequence; read hook_pattern")
        scores = mixer.masked(self.A[layer])[head]
        return scores.softmax(-1) if self.config.softmax else scores

    # --- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a checkpoint atomically, as safetensors if the name ends so, else as `.pt`."""
        from counting_interp.models import checkpoint

        checkpoint.save(self, path)

    @classmethod
    def load(cls, path: str | Path, **assume: Any) -> CountingTransformer:
        """Read a checkpoint by its path, or a bundled one by its name; see `checkpoint.read`."""
        from counting_interp.models import checkpoint

        return checkpoint.load(path, **assume)
