"""Experiments on real language models: longer than a test, and resumable.

`python -m benchmarks.experiments.language_models` teaches two pretrained models to count and measures their mechanism.
Its results are docs/tables/language-models.csv and docs/language-models.md.
"""
