"""Who may read what operators read: by the token, or on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.console.tokens import AccessError, check_address, check_console, read_token, shown

TOKEN = "a token of operators"


def test_the_token_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN
    (tmp_path / "token").write_text("short")
    for path in (tmp_path / "token", tmp_path / "nowhere"):
        with pytest.raises(AccessError):
            read_token(path)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_without_a_token_on_this_machine_alone(host: str) -> None:
    check_address(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "metrics.example.org"])
def test_others_need_a_token(host: str) -> None:
    with pytest.raises(AccessError, match="--metrics-token-file"):
        check_address(host, None)
    check_address(host, TOKEN)


def test_a_token_goes_through_no_network_as_it_is() -> None:
    check_console("127.0.0.1", encrypted=False)
    check_console("0.0.0.0", encrypted=True)
    with pytest.raises(AccessError, match="--console-without-tls"):
        check_console("0.0.0.0", encrypted=False)


def test_the_token_is_shown_whole() -> None:
    assert shown(f"Bearer {TOKEN}", TOKEN)
    assert shown("", None)
    assert not any(shown(header, TOKEN) for header in ("", TOKEN, f"Bearer {TOKEN} ", f"bearer {TOKEN}", "Bearer é"))
