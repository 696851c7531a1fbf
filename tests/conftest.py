"""Shapes and types in the signatures of `models`, `probes` and the prover are checked while tests run, and only then.

In CI, where everything a test can want is installed, a skipped test is a failed one.
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

import counting_interp.models.config  # noqa: F401  (before the hook: a configuration checks its own types, and tests read its errors)

ROOT = Path(__file__).parents[1]

# One thread per process: on tensors this small a second one only waits, 25 times slower when the cores are busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A runner in the background may ignore Ctrl-C, one under `nohup` a closed terminal, and children inherit that: tests of
# interruption want both heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

CHECKED = ["counting_interp.models", "counting_interp.probes"]
CHECKED += [f"counting_interp.interp.proof.{file.stem}" for file in (ROOT / "interp" / "proof").glob("[!_]*.py")]
install_import_hook(CHECKED, "beartype.beartype")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and "CI" in os.environ and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {report.longrepr}"
    return report
