"""Rules for files are tested through the commands that they are for."""

from tests.interp.conftest import interp

__all__ = ["interp"]
