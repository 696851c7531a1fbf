"""A folder as Hugging Face's `save_pretrained` writes it, taken as it is.

Weights come from safetensors files only, the class from transformers itself: nothing in the folder is run. The ids that
are counted and the logits of the counts are given, or guessed from small vocabularies and checked by accuracy.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from counting_interp.models.adapter import Adapter
from counting_interp.models.adapter.points import Net
from counting_interp.models.adapter.reading import SOLVED, find_reading
from counting_interp.util.errors import OWN_MODEL, CheckpointError, InterpError, printable

LARGE = 1000  # a vocabulary that is no alphabet of a counting task


def is_folder(path: str | Path) -> bool:
    """Whether this is a folder with a Hugging Face model in it."""
    config = _json(Path(path) / "config.json") if os.path.isdir(path) else None
    return isinstance(config, dict) and ("model_type" in config or "architectures" in config)


def load(
    folder: str | Path,
    *,
    tokens: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
    L: int | None = None,
) -> Adapter:
    """The model in a folder, opened.

    Args:
        tokens: the ids of the T tokens that are counted; all, or all but the last, of a small vocabulary when absent.
        classes: the ids of the logits of count 1 to L; the first L when absent.
        L: the length of sequences; as many as there are classes, or labels, when absent.

    Raises:
        CheckpointError: what is wrong, in a sentence.
    """
    try:
        net = _net(Path(folder))
        length = L or (len(classes) if classes is not None else _labels(net))
        if length is None:
            raise InterpError("it has no labels to tell the length of sequences by; say it with -L, or with --classes")
        if classes is not None and len(classes) != length:
            raise InterpError(f"--classes must name {length} logits, for the counts 1 to {length}, got {len(classes)}")
        name = Path(folder).name
        return _best(net, list(_alphabets(net, tokens)), length, classes, name)
    except CheckpointError:
        raise
    except InterpError as error:
        raise CheckpointError(folder, f"{error}. {OWN_MODEL}") from error


def ids(path: str | Path) -> list[int]:
    """The ids in a JSON file: a list of whole numbers."""
    read = _json(Path(path))
    if not isinstance(read, list) or not read or not all(type(number) is int and number >= 0 for number in read):
        raise InterpError(f"{printable(str(path))} must hold a JSON list of token ids, such as [17, 42, 99]")
    if len(set(read)) < len(read):
        raise InterpError(f"{printable(str(path))} names an id twice")
    return read


def _net(folder: Path) -> nn.Module:
    if not any(name.endswith(".safetensors") for name in os.listdir(folder)):
        raise InterpError("it holds no .safetensors file; other files of weights can run code, and are not read")
    config = _json(folder / "config.json")
    named = (config.get("architectures") or [None])[0] if isinstance(config, dict) else None
    try:
        import transformers
    except ImportError:
        raise InterpError("the package transformers is needed to read it, which is not installed") from None
    kind: Any = getattr(transformers, named, None) if isinstance(named, str) and named.isidentifier() else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise InterpError(f"its architecture {printable(repr(named), 80)} is none of transformers' own")
    try:
        with warnings.catch_warnings(), _quiet(transformers):
            warnings.simplefilter("ignore")
            options = {"use_safetensors": True, "local_files_only": True, "trust_remote_code": False}
            maker: Any = kind
            net, report = maker.from_pretrained(folder, output_loading_info=True, **options)
    except Exception as error:
        what = printable(f"{type(error).__name__}: {error}", 300)
        raise InterpError(f"transformers cannot load it ({what})") from error
    if report.get("missing_keys"):
        missing = ", ".join(printable(str(key), 60) for key in sorted(report["missing_keys"])[:3])
        raise InterpError(f"its file lacks weights of the model ({missing}), which would be drawn at random")
    assert isinstance(net, nn.Module)
    return net.float()


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without bars that show how fast a small file is read, and without advice on generating text."""
    logging = transformers.utils.logging
    shows, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shows:
            logging.enable_progress_bar()


def _labels(net: nn.Module) -> int | None:
    return int(net.config.num_labels) if "Classification" in type(net).__name__ else None  # type: ignore[union-attr, arg-type]


def _alphabets(net: nn.Module, tokens: Sequence[int] | None) -> Iterator[tuple[list[int], int | None, int | None]]:
    """Ids of tokens, of a start token in prefix, and of one behind."""
    config: Any = net.config
    vocabulary = int(config.vocab_size)
    if tokens is not None:
        if max(tokens) >= vocabulary:
            raise InterpError(f"--tokens names the id {max(tokens)}, and its vocabulary has {vocabulary}")
        starts = (getattr(config, name, None) for name in ("bos_token_id", "cls_token_id", "decoder_start_token_id"))
        spare = [token for token in range(vocabulary) if token not in set(tokens)] if vocabulary <= LARGE else []
        tried = [None, *(start for start in starts if isinstance(start, int) and start not in tokens), *spare[:8]]
        yield from ((list(tokens), start, None) for start in dict.fromkeys(tried))
        yield from ((list(tokens), *pair) for pair in pairwise(spare[:9]))
    elif vocabulary > LARGE:
        raise InterpError(f"its vocabulary has {vocabulary} ids; say with --tokens ids.json which are counted")
    else:
        yield list(range(vocabulary)), None, None
        yield list(range(vocabulary - 1)), vocabulary - 1, None
        yield list(range(vocabulary - 2)), vocabulary - 2, vocabulary - 1


def _best(
    net: nn.Module,
    alphabets: list[tuple[list[int], int | None, int | None]],
    L: int,
    classes: Sequence[int] | None,
    name: str,
) -> Adapter:
    """Opened with the first alphabet on which the model counts, or one of those on which it counts best."""
    tried: list[tuple[float, Callable[[], Adapter]]] = []
    for alphabet, start, stop in alphabets:
        prefix = 0 if start is None else 1
        read = None if classes is None else partial(_chosen, list(classes), prefix, L)
        encode = partial(_encoded, torch.tensor(alphabet), start, stop)
        led = "" if start is None else f", the token {start} in front"
        led += "" if stop is None else f" and {stop} behind"
        encode.words = f"{len(alphabet)} tokens with the ids {_short(alphabet)}{led}"  # type: ignore[attr-defined]
        reading, _ = find_reading(Net(net), len(alphabet), L, encode=encode, read=read)
        accuracy = reading.accuracy if reading else -1.0
        tried.append((accuracy, partial(Adapter, net, len(alphabet), L, encode=encode, read=read, name=name)))
        if accuracy > SOLVED:
            break
    best = max(accuracy for accuracy, _ in tried)
    margin = 0.0 if best > SOLVED else 0.1  # an unsolved model may do better by chance on what it never read
    adapter = next(make for accuracy, make in tried if accuracy >= best - margin)()
    if best <= SOLVED and classes is None and _labels(net) is None:
        adapter.notes.append("The first logits were taken for the counts; say with --classes which they are")
    return adapter


def _short(alphabet: list[int]) -> str:
    shown = ", ".join(map(str, alphabet[:4]))
    return shown if len(alphabet) <= 4 else f"{shown}, ..., {alphabet[-1]}"


def _encoded(alphabet: Tensor, start: int | None, stop: int | None, tokens: Tensor) -> Tensor:
    known = alphabet.to(tokens.device)[tokens]
    known = known if start is None else nn.functional.pad(known, (1, 0), value=start)
    return known if stop is None else nn.functional.pad(known, (0, 1), value=stop)


def _chosen(classes: list[int], prefix: int, L: int, output: Any) -> Tensor:
    logits: Tensor = output["logits"]
    return logits[:, prefix : prefix + L, classes]


def _json(path: Path) -> Any:
    try:
        if path.stat().st_size > 10**7:
            return None
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
