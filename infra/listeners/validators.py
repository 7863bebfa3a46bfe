"""What is remembered of a source's last answer, so that the next look asks for what is new alone."""

from __future__ import annotations

import msgspec


class Validators(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the last answer said of itself, and the hash of its body."""

    etag: str = ""
    last_modified: str = ""
    body_hash: str = ""
