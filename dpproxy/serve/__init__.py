"""The proxy as running processes: what is started in which order, and how it ends."""
