"""Training against the proof: a trained model is changed until `prove` says that it counts every sequence rightly.

    >>> from counting_interp.interp.proof.repair import Repair
    >>> run = Repair(model)
    >>> while not run.certified:
    ...     run.advance()
    >>> run.model()

`adversary` collects the sequences that are hardest for a model, `training` trains on them in the compiled kernels,
`run` alternates the two with verification, `files` keeps a run on disk, `pursuit` does all of
that until there is a proof or the time is up. docs/certificates.md tells it with numbers.
"""

from __future__ import annotations

from counting_interp.interp.proof.repair.run import Repair, Round

__all__ = ["Repair", "Round"]
