"""Identifies the owner of settings without revealing their token."""

import hashlib
from typing import Any, Mapping, Optional


def fingerprint(token: str) -> str:
    """Returns a hash that identifies a token."""
    return hashlib.sha256(("galvo-token:" + token).encode("utf-8", "replace")).hexdigest()


def identity(settings: Mapping[str, Any]) -> Optional[str]:
    """Returns the fingerprint of the original token, even after an exchange; None without one."""
    token = settings.get("token")
    return settings.get("exchanged_for") or (fingerprint(token) if token else None)
