"""`python -m dpproxy`: the same command as `dpproxy`."""

from dpproxy.cli import app

app()
