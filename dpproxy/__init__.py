"""dpproxy: plain PostgreSQL SQL in, differentially private answers out. See README.md."""

__version__ = "0.1.0"
