"""What can be measured on a counting model. One probe per file: a pure function, a small frozen result, no drawing."""

if __name__ != "counting_interp.probes":
    raise ImportError("this folder is a part of counting_interp: write `import counting_interp.probes`")
