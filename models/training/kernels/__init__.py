"""One epoch of training, compiled: sampler, forward pass, hand-written backward pass and Adam, nothing in between.

`step.py` holds the algorithm; the other files are its parts, in the order in which it uses them: `random`, `sampling`,
`plan`, `mixing`, `readout`, `adam`.
"""
