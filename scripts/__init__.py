"""Scripts for maintainers. They write `src/counting_interp/data` and the tables of the docs."""
