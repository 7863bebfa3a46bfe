"""The Merkle tree of RFC 9162, section 2.1, with SHA-256. Pure, tested with that tree's published vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """Return the root over these leaf hashes; over none, the hash of nothing."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    split = _split(len(leaves))
    return _node(tree_hash(leaves[:split]), tree_hash(leaves[split:]))


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that, with the leaf at ``index``, give the root; from the leaf upwards."""
    if len(leaves) < 2:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_path(leaves[:split], index), tree_hash(leaves[split:])]
    return [*inclusion_path(leaves[split:], index - split), tree_hash(leaves[:split])]


def _split(count: int) -> int:
    """Return the largest power of two below ``count``."""
    return 1 << (count - 1).bit_length() - 1


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
