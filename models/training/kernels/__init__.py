"""One epoch of training, compiled: sampler, forward pass, hand-written backward pass and Adam, nothing in between.

`epoch` holds the algorithm; the other files are its parts: `sampling` draws (with `random`), `plan` says which rows are
computed, `occurring` which tokens, `blocks` computes them (`attention` and `mixing`, or `constant`; `products`), then
`loss` and `adam`. Underneath lie `lanes`, `gemm` and `compiling`.
"""
