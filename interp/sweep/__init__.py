"""Sweeps: many training runs that need no neighbour, on this machine or on a cluster, safe against any interruption.

grid        which runs there are: the one record of their axes, jobs with their seeds and order, the paper's presets
worker      one job -> a trained run; one finished run -> its verdict and proof
run         puts these together: what is asked for minus what is there, through `interp.jobs`, into the store
rows        what a row may hold, in a database or a table
store       results and checkpoints, written by the coordinator alone; saves what can be read of a damaged file
table       finished runs as rows, from a folder or a CSV file
statistics  per cell: accuracy, mechanisms; which cells belong on one picture; frontiers
compare     a table against the published numbers
"""
