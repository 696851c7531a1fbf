"""Sweeps: many training runs that need no neighbour, on this machine or on a cluster, safe against any interruption.

grid        which runs there are: the one record of their axes, jobs, their seeds and their order
presets     the paper's experiments as grids
train_run   one job -> a trained run; what a worker does
measure_run one finished run -> its verdict and proof; what a worker does
attempt     a task and what became of it
local       worker processes on this machine
cluster     a running dask.distributed scheduler
database    one SQLite file: tables, locks, errors; wholeness checks it, rescue saves what can be read
store       results and checkpoints, written by the coordinator alone
coordinator puts these together
progress    how far it is and how long it will take; status says so later
table       finished runs as rows, from a folder or a CSV file; statistics per cell
settings    which cells belong on one picture
compare     a table against the published numbers
"""
