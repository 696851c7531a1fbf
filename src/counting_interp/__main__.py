"""`python -m counting_interp`."""

from counting_interp.interp.cli import main

main()
