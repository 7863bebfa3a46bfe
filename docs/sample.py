"""Write docs/sample.md: what the offline pipeline made of the 42 sample events, next to their labels.

    ./run demo && ./run --data-dir .data/demo signals --json | .venv/bin/python docs/sample.py

The labels are read here, after the fact; they never enter the pipeline.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from infra.offline.sample_news import sample_labels, sample_news  # noqa: E402 - found by the line above
from newsproof.report.demo import against_labels  # noqa: E402
from newsproof.report.signals import action_in_words, verdict_in_words  # noqa: E402
from schemas.signals import Signal  # noqa: E402

HEAD = """# The 42 sample events, and their labels

This table compares the demo's signals with the labels of the events. This command writes it:

```sh
./run demo && ./run --data-dir .data/demo signals --json | .venv/bin/python docs/sample.py
```

Everything here is **offline**: rules over the text and a bundled corpus of invented pages. The
label (`truth` in `infra/offline/sample/history.jsonl`) never enters the pipeline, and the corpus
has none. The offline rules were tuned on these events, so the table shows that the pipeline works,
not how well it judges unseen news.

No critic reads the pages here. The word rules stand in for one, and some of their verbs were added
with these events in view. By words alone nothing is raised or refuted. So a confirmed claim keeps
its first confidence, and a denied claim is disputed; a refuted claim was denied by a later item of
the sample. On unseen cases the word rules lower many true claims:
[verification.md](verification.md#what-was-measured) has those figures.

"""


def main() -> int:
    """Read signals (JSON lines) from standard input and write the page; 1 when one of the sample events has none."""
    signals = [msgspec.json.decode(line, type=Signal) for line in sys.stdin if line.strip().startswith("{")]
    by_case, labels = {one.case_id: one for one in signals}, sample_labels()
    lines = ["| news | label | action | confidence | verdict | flags | text |", "|---|---|---|---|---|---|---|"]
    for news in sample_news():
        if (s := by_case.get(news.case_id)) is None:
            continue
        stage = "" if s.stage == "final" else f"{s.stage}, "
        flags = ", ".join(f for f in s.risk_flags if f != "offline")
        confidence = f"{s.preliminary_confidence:.2f} → {s.confidence:.2f}"
        verdict = f"{stage}{verdict_in_words(s).en}"
        label = labels[str(news.external_id)].truth
        cells = (
            news.external_id,
            label,
            action_in_words(s).en,
            confidence,
            verdict,
            flags,
            news.text.replace("|", "/"),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    page = HEAD + "\n".join([*figures(signals), "", *lines]) + "\n"
    (PROJECT / "docs" / "sample.md").write_text(page, "utf-8")
    if missing := [str(news.external_id) for news in sample_news() if news.case_id not in by_case]:
        print(
            f"no signal for {', '.join(missing)}: run the demo first, and give signals of every verdict",
            file=sys.stderr,
        )
    return 1 if missing else 0


def figures(signals: list[Signal]) -> list[str]:
    """Return what is required of this table, and what came of it."""
    names = {news.case_id: str(news.external_id) for news in sample_news()}
    labels = {case: sample_labels()[name] for case, name in names.items()}
    found = against_labels(labels, signals, ())
    believed = sum(one.confidence >= 0.4 for one in signals if labels[one.case_id].truth == "true")
    return [
        f"- Labelled false and acted on (`buy` or `sell`): {found.false_actioned} of {found.false_items} (required: none).",
        f"- Labelled true and confirmed or likely: {found.true_confirmed} of {found.true_items}.",
        f"- Labelled true and confidence ≥ 0.4: {believed} of {found.true_items}.",
    ]


if __name__ == "__main__":
    sys.exit(main())
