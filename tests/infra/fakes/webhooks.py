"""A sender of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def signed(body: bytes, *, name: str = "msg_1", at: float | None = None, key: bytes = KEY) -> dict[str, str]:
    stamp = str(int(at if at is not None else datetime.now(UTC).timestamp()))
    of = base64.b64encode(hmac.digest(key, f"{name}.{stamp}.".encode() + body, hashlib.sha256)).decode()
    return {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": f"v1,{'A' * 44} v1,{of}"}
