"""What a person does with it: classify, look, sweep, prove, report. Axes are named in `models`."""

if __name__ != "counting_interp.interp":
    raise ImportError("this folder is a part of counting_interp: write `import counting_interp.interp`")
