"""What a person does with it: classify, look, sweep, verify, report. Axes are named in `models`."""
