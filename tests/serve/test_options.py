"""Options as values: what their defaults are, and what is said of an address that cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.serve.runtime import Options, ServingError, listening


def test_a_token_is_not_shown() -> None:
    options = Options((), "127.0.0.1", 0, Path("state"), metrics_token="a secret of operators")
    assert "secret" not in repr(options)
    assert (options.log_format, options.log_level) == ("json", "info")


def test_an_address_that_cannot_be_had_is_said() -> None:
    with pytest.raises(ServingError, match="cannot listen on here:1: Address in use"), listening("here:1"):
        raise OSError(98, "Address in use")
    with pytest.raises(ValueError, match="other"), listening("here:1"):
        raise ValueError("other")
