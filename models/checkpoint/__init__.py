"""Checkpoints: `save` and `load`, whoever wrote the file and whatever is in it.

    path -> bytes -> pt | safetensors (tensors, metadata) -> contents (checks) -> loading (a model)

A trainer keeps its state beside the weights, and gets it back bit for bit; plain `load` passes over it:

    save(model, path, training_state=TrainingState(arrays={"adam_m": ...}, values={"epoch": 3}))
    checkpoint = read(path)
    checkpoint.model, checkpoint.training_state.arrays["adam_m"], checkpoint.training_state.values["epoch"]
"""

from counting_interp.models.checkpoint.contents import TrainingState
from counting_interp.models.checkpoint.loading import Checkpoint, from_bytes, load, read
from counting_interp.models.checkpoint.saving import save, to_bytes

__all__ = ["Checkpoint", "TrainingState", "from_bytes", "load", "read", "save", "to_bytes"]
