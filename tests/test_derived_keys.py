"""Keys for single purposes: HMAC-SHA-256 of the purpose, no two alike."""

from __future__ import annotations

import hmac

from dpproxy.derived_keys import derived

KEY = b"a secret of the operator"


def test_keys_of_different_purposes_differ() -> None:
    assert len({derived(KEY, purpose) for purpose in ("ledger", "stored answers", "")}) == 3
    assert derived(KEY, "ledger") == hmac.new(KEY, b"dpproxy ledger", "sha256").digest()
