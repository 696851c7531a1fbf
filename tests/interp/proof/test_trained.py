"""Trained models: every bundled one is decided, and what refutes it can be repeated."""

from __future__ import annotations

import pytest
import torch

from counting_interp.data import zoo_names
from counting_interp.interp.proof import Certificate, Counterexample, Undecided, prove
from counting_interp.models import CountingTransformer, task


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names())
def test_every_bundled_one_layer_model_is_decided(name):
    model = CountingTransformer.load(name)
    if model.config.n_layers == 2:
        pytest.skip("two layers are proved by enumeration only")
    outcome = prove(model, seconds=600)  # wall time, on machines that may be busy; it takes 0.1 to 13 s of processor
    assert not isinstance(outcome, Undecided), str(outcome)
    assert isinstance(outcome, Certificate) == ("repair" in model.metadata)
    if isinstance(outcome, Counterexample):
        tokens = torch.tensor(outcome.sequence)
        assert task.histogram(tokens).tolist() == list(outcome.true_counts)
        assert int(model.predict(tokens)[outcome.position]) == outcome.answer != outcome.count
        if model.config.mixing != "lin":  # what is not wrong is proved right
            assert outcome.wrong_cells + outcome.proved_cells >= 0.95 * outcome.cells
