"""Counting with large language models: the evaluation of the paper's appendix, for any causal language model.

In the order of reading: `prompts` (what is asked, with true answers), `model` (loading one), `answers` (the count in a
next-token distribution or in a text, kept on disk), `evaluation`, `result` (accuracies, slopes, tables).
"""
