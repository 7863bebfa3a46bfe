"""Check a proof of `newsproof record prove` against a day's published root, without Newsproof: Python's own modules only.

    python3 check_proof.py PROOF.json ROOT          ROOT: the day's root, 64 hex digits, from a copy that you trust

Exit status 0 and one line if the proof is valid; 1 and the reason if it is not. RFC 9162, section 2.1.3.2.
"""

import hashlib
import json
import sys
from pathlib import Path


def sha256(data):
    return hashlib.sha256(data).digest()


def fault(proof, root):
    """Return what is wrong with the proof, or None."""
    row, index, size = proof["row"], proof["index"], proof["root"]["signals"]
    if sha256(proof["value"].encode()).hex() != row["sha256"]:
        return "the signal is not the one that its row names"
    signal = json.loads(proof["value"])
    if (signal["signal_id"], signal["revision"]) != (row["signal_id"], row["revision"]):
        return "the row belongs to another signal"
    last, found = size - 1, sha256(b"\0" + json.dumps(row, sort_keys=True, separators=(",", ":")).encode())
    if not 0 <= index <= last:
        return "the index is outside of the tree"
    for sibling in map(bytes.fromhex, proof["path"]):
        if last == 0:
            return "the path is too long"
        if index % 2 or index == last:
            found = sha256(b"\1" + sibling + found)
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            found = sha256(b"\1" + found + sibling)
        index, last = index // 2, last // 2
    return None if last == 0 and found.hex() == root.lower() else "it does not give this root"


if __name__ == "__main__":
    wrong = fault(json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2])
    print(
        "The proof is valid: the signal belongs to the day with this root."
        if wrong is None
        else f"THE PROOF IS NOT VALID: {wrong}."
    )
    sys.exit(wrong is not None)
