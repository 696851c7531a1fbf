"""The atlas: one page to walk through a sweep, cell by cell, with the models themselves running in it."""
