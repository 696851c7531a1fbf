"""Finding out how a transformer counts: relation-based (RC), inventory-based (IC) or gated.

The code lives in the folders `models`, `probes` and `interp` of the repository; this package is its one import name.
"""
