"""Write docs/sample.md: what the offline pipeline made of the 42 sample events, next to their labels.

    ./run demo && ./run signals --json | .venv/bin/python docs/sample.py

The labels are read here, after the fact; they never enter the pipeline.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "infra" / "offline" / "sample" / "history.jsonl"
PAGE = ROOT / "docs" / "sample.md"

HEAD = """# The 42 sample events, and their labels

Written by `./run demo && ./run signals --json | .venv/bin/python docs/sample.py` from the signals that the demo published.
Everything here is **offline**: rules over the text and a bundled corpus of invented pages, for trying and testing. The label
(`truth` in `infra/offline/sample/history.jsonl`) never enters the pipeline, and the corpus carries none. The offline rules were tuned
while looking at these events, so this table shows that the pipeline works, not how well it would judge news that nobody has seen.

"""


def main() -> int:
    """Read signals (JSON lines) from standard input and write the page; 1 when one of the sample events has none."""
    signals = {}
    for line in sys.stdin:
        if line.strip().startswith("{"):
            row = json.loads(line)
            signals[row.get("external_id") or row.get("news") or row["summary"][:40]] = row
    labels = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    lines = ["| news | label | action | confidence | status | flags | text |", "|---|---|---|---|---|---|---|"]
    missing = [row["id"] for row in labels if find(row, signals) is None]
    for row in labels:
        if (s := find(row, signals)) is None:
            continue
        confidence = f"{s['preliminary_confidence']:.2f} → {s['confidence']:.2f}"
        flags = ", ".join(f for f in s["risk_flags"] if f != "offline")
        cells = (row["id"], row["truth"], s["action"], confidence, s["status"], flags, row["text"].replace("|", "/"))
        lines.append(f"| {' | '.join(cells)} |")
    PAGE.write_text(HEAD + verdict(labels, signals) + "\n".join(lines) + "\n", "utf-8")
    if missing:
        print(f"no signal for {', '.join(missing)}: run the demo first, and give all statuses", file=sys.stderr)
    return 1 if missing else 0


def find(row: dict[str, str], signals: dict[str, dict[str, object]]) -> dict[str, object] | None:
    """Return the signal of one sample event, by the text that its summary begins with."""
    by_id = signals.get(row["id"])
    start = row["text"][:30]
    return by_id or next((s for s in signals.values() if str(s["summary"]).startswith(start)), None)


def verdict(labels: list[dict[str, str]], signals: dict[str, dict[str, object]]) -> str:
    """Return the two requirements on this table, and what came of them."""
    found = [(row["truth"], find(row, signals) or {"action": "", "confidence": 0.0}) for row in labels]
    false = [s for truth, s in found if truth == "false"]
    true = [s for truth, s in found if truth == "true"]
    bought = sum(1 for s in false if s["action"] == "buy" and float(str(s["confidence"])) >= 0.6)
    kept = sum(1 for s in true if float(str(s["confidence"])) >= 0.4)
    return (
        f"- Labelled false and a `buy` of confidence ≥ 0.6: {bought} of {len(false)} (required: none).\n"
        f"- Labelled true and confidence ≥ 0.4: {kept} of {len(true)} (required: 80 %).\n\n"
    )


if __name__ == "__main__":
    sys.exit(main())
