"""Shapes and types in the signatures of `models` and `probes` are checked while the tests run, and only then."""

import os

from jaxtyping import install_import_hook

import models.config  # noqa: F401  (before the hook: a configuration checks its own types, and tests read its errors)

# One thread per process: on tensors this small a second one only waits, 25 times slower when the cores are busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

install_import_hook(["models", "probes"], "beartype.beartype")
