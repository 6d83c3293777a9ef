"""The allow-list: a builder for each function that may be used below a measurement."""
