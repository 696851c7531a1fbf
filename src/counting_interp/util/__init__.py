"""What every part needs and nothing that knows what a model is."""
