"""A coordinator to be killed: `python -m tests.interp.sweep.coordinate DIR RUNNER WORKERS [SCHEDULER]`.

A runner whose name begins with `judged` classifies what is there; others train.
"""

import sys

from counting_interp.interp.jobs import Backend, Cluster, LocalWorkers
from counting_interp.interp.sweep.run import classify_sweep, run_sweep
from counting_interp.interp.sweep.worker import Measuring
from tests.interp.sweep import fakes

if __name__ == "__main__":
    runner = getattr(fakes, sys.argv[2])
    backend: Backend = Cluster(sys.argv[4], runner) if len(sys.argv) > 4 else LocalWorkers(int(sys.argv[3]), runner)
    if sys.argv[2].startswith("judged"):
        classify_sweep(sys.argv[1], backend, Measuring())
    else:
        run_sweep(sys.argv[1], fakes.jobs(), backend)
