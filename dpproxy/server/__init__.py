"""The listening side: sockets, TLS, login, and how many may be connected."""
