"""Shapes and types in the signatures of `models` and `probes` are checked while the tests run, and only then."""

from jaxtyping import install_import_hook

import models.config  # noqa: F401  (before the hook: a configuration checks its own types, and tests read its errors)

install_import_hook(["models", "probes"], "beartype.beartype")
