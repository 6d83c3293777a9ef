"""Keys for single purposes, derived from one secret.

Knows: HMAC. Must not know: what a key is for, who holds the secret.
"""

from __future__ import annotations

import hmac


def derived(key: bytes, purpose: str) -> bytes:
    """Derive a key of 32 bytes for one purpose, which tells nothing of those for others (HMAC-SHA-256 as a PRF)."""
    return hmac.digest(key, f"dpproxy {purpose}".encode(), "sha256")
