"""Paths of the files that ship with the package; `README.md` beside them says what each holds and who made it.

Every function returns paths, and reads nothing.
"""

from __future__ import annotations

from pathlib import Path

if __name__ != "counting_interp.data":
    raise ImportError("this folder is a part of counting_interp: write `import counting_interp.data`")

FOLDER = Path(__file__).parent
ZOO = FOLDER / "zoo"


def zoo_names() -> list[str]:
    """The names of all bundled checkpoints, in alphabetical order."""
    return sorted(file.stem for file in ZOO.glob("*.safetensors"))


def zoo_path(name: str) -> Path:
    """The file of a bundled checkpoint.

    Raises:
        ValueError: no bundled checkpoint has this name; the message lists those there are.
    """
    if name not in (names := zoo_names()):
        raise ValueError(f"the zoo has no {name!r}; it has {', '.join(names)}")
    return ZOO / f"{name}.safetensors"


def runs(name: str) -> Path:
    """The table of a bundled sweep: `fig1`, `paper`, `random`, `T64`, ..."""
    return FOLDER / "runs" / f"{name}.csv"


def all_runs() -> list[Path]:
    """The tables of all bundled sweeps."""
    return sorted((FOLDER / "runs").glob("*.csv"))


def published(name: str) -> Path:
    """A table of numbers that the paper's authors published: `phase_T32_L10`, `spectra`, ..."""
    return FOLDER / "published" / f"{name}.csv"


def measured(name: str) -> Path:
    """A table of measurements on the checkpoints of a sweep: `spectra`, `output-curves`."""
    return FOLDER / "measured" / f"{name}.csv"


def frames() -> Path:
    """The best known frames (sets of unit vectors), by number of vectors, dimensions and measure."""
    return FOLDER / "frames.csv"


def certified() -> Path:
    """The smallest certified models at T = 32, L = 10."""
    return FOLDER / "certified_T32_L10.csv"


def verdict_odds() -> Path:
    """How often a label is correct on models of known mechanism, by label and kind of model."""
    return FOLDER / "verdict-odds.csv"


def atlas_weights() -> Path:
    """The weights of the models that run in the bundled atlas."""
    return FOLDER / "atlas.safetensors"


def language_models() -> list[Path]:
    """Folders with the answers of language models, as `interp llm -o FOLDER` writes them."""
    return sorted(table.parent for table in (FOLDER / "language-models").glob("*/answers.csv"))


def prompts() -> Path:
    """The prompts that language models are asked with."""
    return FOLDER / "prompts.json"
