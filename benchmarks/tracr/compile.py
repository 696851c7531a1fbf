"""Compile counting programs to weights. Needs Tracr, which is not a dependency of this package:

    python -m venv /tmp/tracr && /tmp/tracr/bin/pip install tracr-pypi
    /tmp/tracr/bin/python benchmarks/tracr/compile.py benchmarks/tracr

`histogram` is Tracr's `make_hist`, the width of the selector "same token". Its attention compares, and writes
1 / (1 + count) in one direction. `histogram-causal` is the same under a causal mask. `inventory` is ours. It has a head
for each token v, in which the query of every position selects v. Then each position picks the count of its own token.
No attention weight depends on the query.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

BOS = "BOS"


def inventory(T: int, L: int):
    from tracr.rasp import rasp

    picked = []
    for v in range(T):
        named = rasp.Map(lambda x, v=v: v, rasp.tokens)  # every query selects v
        count = rasp.SelectorWidth(rasp.Select(rasp.tokens, named, rasp.Comparison.EQ))
        own = rasp.SequenceMap(lambda n, x, v=v: n if x == v else 0, count, rasp.tokens)
        picked.append(own.named(f"own_{v}"))
    total = picked[0]
    for v, own in enumerate(picked[1:], 1):
        total = rasp.SequenceMap(lambda a, b: min(a + b, L), total, own).named(f"upto_{v}")
    return total


def write(path: Path, program, T: int, L: int, causal: bool = False) -> None:
    from tracr.compiler import compiling

    model = compiling.compile_rasp_to_model(program, set(range(T)), L, causal=causal, compiler_bos=BOS)
    ids = model.input_encoder.encoding_map
    assert [ids[t] for t in (*range(T), BOS)] == list(range(T + 1))
    name = max(label.rpartition(":")[0] for label in model.residual_labels if label.startswith(program.label))
    answer = [model.residual_labels.index(f"{name}:{c}") for c in range(1, L + 1)]
    arrays = {f"{module}/{part}": np.asarray(w) for module, parts in model.params.items() for part, w in parts.items()}
    config = model.model_config
    sizes = {"T": T, "L": L, "layers": config.num_layers, "heads": config.num_heads, "causal": config.causal}
    np.savez_compressed(path, **arrays, **sizes, answer=answer)
    for tokens in ([0, 0, 1, 2, 2, 2][:L], [3] * L):
        print(path.name, tokens, model.apply([BOS, *tokens]).decoded)


if __name__ == "__main__":
    from tracr.compiler import lib

    folder = Path(sys.argv[1])
    write(folder / "histogram.npz", lib.make_hist(), 8, 6)
    write(folder / "histogram-causal.npz", lib.make_hist(), 8, 6, causal=True)
    write(folder / "inventory.npz", inventory(5, 4), 5, 4)
