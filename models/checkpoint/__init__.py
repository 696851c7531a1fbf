"""Checkpoints: `save` and `load`, whoever wrote the file and whatever is in it.

    path -> source (bytes) -> pt | safetensors (tensors, metadata) -> weights (checks) -> loading (a model)

A trainer keeps its own state beside the weights, and gets it back bit for bit; plain `load` passes over it:

    save(model, path, training_state=TrainingState(arrays={"adam_m": ...}, values={"epoch": 3}))
    checkpoint = read(path)
    checkpoint.model, checkpoint.training_state.arrays["adam_m"], checkpoint.training_state.values["epoch"]
"""

from counting_interp.models.checkpoint.contents import TrainingState
from counting_interp.models.checkpoint.loading import Checkpoint, load, load_training_state, read
from counting_interp.models.checkpoint.saving import save

__all__ = ["Checkpoint", "TrainingState", "load", "load_training_state", "read", "save"]
