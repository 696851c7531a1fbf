"""One file per command. Each has `register(app)`, parses arguments, and imports what is heavy only when it runs."""
