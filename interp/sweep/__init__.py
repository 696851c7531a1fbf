"""Sweeps: many training runs that need no neighbour, on this machine or on a cluster, safe against any interruption.

grid        which runs there are: cells, jobs, their seeds and their order
presets     the paper's experiments as grids
training    one job -> one outcome; what a worker does
local       worker processes on this machine
cluster     a running dask.distributed scheduler
store       one SQLite file and its checkpoints, written by the coordinator alone
coordinator puts these together
progress    how far it is and how long it will take
table       finished runs as rows, from a folder or a CSV file; statistics per cell
compare     a table against the published numbers
"""
