"""Makes the proved models of the zoo: `python -m counting_interp.interp.proof.repair.zoo [NAME ...]`.

Names are those of the parents. What cannot be proved within the time is not bundled.
"""

from __future__ import annotations

import sys
import time

import torch

from counting_interp.interp.proof.repair import Repair, files
from counting_interp.interp.proof.repair.pursuit import progress_line
from counting_interp.models import zoo
from counting_interp.models.zoo.build import PROVED, proved_name

SECONDS = 1800.0


def make(parent: str) -> None:
    file = zoo.FOLDER / f"{proved_name(parent)}.safetensors"
    began = time.process_time()
    run = Repair(zoo.load(parent))
    while not run.certified and time.process_time() - began < SECONDS:
        print(f"{parent}, {time.process_time() - began:.1f} s: {progress_line(run.rounds[-1])}", flush=True)
        run.advance()
    if not run.certified:
        sys.exit(f"{parent}: no proof")
    why = f"{parent}, trained until it was proved right on every sequence"
    files.write(run, file)
    seconds = time.process_time() - began
    model = zoo.load(proved_name(parent))
    model.metadata["repair"]["processor_seconds"] = round(seconds, 1)
    model.metadata["zoo"] = {"why": why, "chosen": "the first proof"}
    model.save(file)
    print(f"{parent}, {seconds:.1f} s: {run.certificate}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or PROVED:
        make(name)
