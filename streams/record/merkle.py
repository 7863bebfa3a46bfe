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


def inclusion_paths(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return for each leaf the hashes that, with it, give the root; from the leaf upwards."""
    if len(leaves) < 2:
        return [[] for _ in leaves]
    split = _split(len(leaves))
    halves = leaves[:split], leaves[split:]
    roots = [tree_hash(half) for half in halves]
    return [
        [*path, other] for half, other in zip(halves, reversed(roots), strict=True) for path in inclusion_paths(half)
    ]


def _split(count: int) -> int:
    """Return the largest power of two below ``count``."""
    return 1 << (count - 1).bit_length() - 1


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
