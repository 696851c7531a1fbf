"""What maintainers run: it writes `src/counting_interp/data` and tables of the docs."""
