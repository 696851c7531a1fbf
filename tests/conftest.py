"""Shapes and types in the signatures of `models` and `probes` are checked while the tests run, and only then."""

from jaxtyping import install_import_hook

install_import_hook(["models", "probes"], "beartype.beartype")
