"""One epoch of training, compiled: sampler, forward pass, hand-written backward pass and Adam, nothing in between.

Read `epoch`, which holds the algorithm, then its parts: `sampling` draws sequences, `plan` says which rows and tokens
are computed, `blocks` computes them with `mixers` and `products`. Underneath lie `lanes`, vectors of the processor.
"""
