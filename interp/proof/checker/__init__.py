"""Checks a certificate with integers alone. Reads top to bottom; needs Python and nothing else.

`weights` reads a checkpoint, of one form only. `model` brings it into the form that is proved, with reals enclosed
between rationals. `rounding` and `cell_rounding` bound what floating point may lose, operation by operation. `tree`
walks the trees of a certificate. `check` does it all. Nothing here imports the prover (`counting_interp.interp.proof`),
torch, numba or numpy: a fault there cannot hide here.
"""
