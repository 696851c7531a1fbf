"""Checks a certificate with integers alone. Reads top to bottom; needs Python and nothing else.

`numbers` encloses reals between rationals; `weights` reads a checkpoint; `sums` brings the model into the form that is
proved; `rounding` bounds what floating point may lose; `proof` walks the trees of a certificate; `check` does it all.
Nothing here imports the prover (`interp.proof`), torch, numba or numpy: a fault there cannot hide here.
"""
