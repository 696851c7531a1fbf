"""Shapes and types in the signatures of `models` and `probes` are checked while the tests run, and only then.

In CI, where everything a test can want is installed, a skipped test is a failed one.
"""

import os
import signal
from collections.abc import Generator

import pytest
from jaxtyping import install_import_hook

import counting_interp.models.config  # noqa: F401  (before the hook: a configuration checks its own types, and tests read its errors)

# One thread per process: on tensors this small a second one only waits, 25 times slower when the cores are busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A runner in the background may ignore Ctrl-C, one under `nohup` a closed terminal, and children inherit that: tests of
# interruption want both heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

install_import_hook(["counting_interp.models", "counting_interp.probes"], "beartype.beartype")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and "CI" in os.environ and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {report.longrepr}"
    return report
