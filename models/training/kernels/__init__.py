"""One epoch of training, compiled: sampler, forward pass, hand-written backward pass and Adam, nothing in between.

Read `epoch`, which holds the algorithm. `batches` draws sequences and plans the rows that a batch needs, `products`
computes them, and `lanes` are the processor's vectors in which both compute.
"""
