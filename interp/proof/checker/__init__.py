"""Checks a certificate with integers alone. Reads top to bottom; needs Python and nothing else.

`numbers` encloses reals between rationals; `archive` and `weights` read a checkpoint, of one form only; `sums` brings
the model into the form that is proved; `rounding` and `cell_rounding` bound what floating point may lose, operation by
operation; `proof` walks the trees of a certificate; `check` does it all. Nothing here imports the prover
(`counting_interp.interp.proof`), torch, numba or numpy: a fault there cannot hide here.
"""
