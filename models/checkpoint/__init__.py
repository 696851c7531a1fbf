"""Checkpoints: `save` and `load`, for our own files and for those of others.

    path -> bytes (files) -> tensors, metadata (pt | safetensors) -> checks (contents, bare) -> model (files)

A trainer stores its state beside the weights and gets it back bit for bit; plain `load` ignores it:

    save(model, path, training_state=TrainingState(arrays={"adam_m": ...}, values={"epoch": 3}))
    checkpoint = read(path)
    checkpoint.model, checkpoint.training_state.arrays["adam_m"], checkpoint.training_state.values["epoch"]
"""

from counting_interp.models.checkpoint.contents import TrainingState
from counting_interp.models.checkpoint.files import Checkpoint, from_bytes, load, read, save, to_bytes

__all__ = ["Checkpoint", "TrainingState", "from_bytes", "load", "read", "save", "to_bytes"]
