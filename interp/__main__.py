"""`python -m interp`."""

from interp.cli import main

main()
