"""A coordinator to be killed: `python -m tests.interp.sweep.coordinate DIR RUNNER WORKERS [SCHEDULER]`."""

import sys

from interp.sweep.cluster import Cluster
from interp.sweep.coordinator import Backend, run_sweep
from interp.sweep.local import LocalWorkers
from tests.interp.sweep import fakes

if __name__ == "__main__":
    runner = getattr(fakes, sys.argv[2])
    backend: Backend = Cluster(sys.argv[4], runner) if len(sys.argv) > 4 else LocalWorkers(int(sys.argv[3]), runner)
    run_sweep(sys.argv[1], fakes.jobs(), backend)
