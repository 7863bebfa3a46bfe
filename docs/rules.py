"""Print, for docs/verification.md, the sample's signals by the rules of before beside today's, case by case.

    .venv/bin/python docs/rules.py

Both logs were recorded with the scripted model over the same 42 items: ``tests/data/sample-log-rules1.jsonl.gz`` by
rules 1, the shipped one by today's. Whether a change was for the better is told by the item's label alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from evaluation.replay.log_file import LogFile, read_log_file  # noqa: E402
from infra.offline.sample_news import sample_labels, sample_news  # noqa: E402 - found by the line above
from newsproof.report.signals import action_in_words, verdict_in_words  # noqa: E402
from schemas.envelope import read_signal  # noqa: E402
from schemas.signals import Signal  # noqa: E402

BEFORE = PROJECT / "tests" / "data" / "sample-log-rules1.jsonl.gz"
SAME = 0.05
"""Changes of confidence up to this are no change: the scripted model's draws alone move it as much."""


def main() -> None:
    """Print the table and its sums."""
    before, after, labels = newest(read_log_file(BEFORE)), newest(read_log_file()), sample_labels()
    rows, sums = [], Counter[str]()
    for news in sample_news():
        was, now, name = before[news.case_id], after[news.case_id], str(news.external_id)
        truth = labels[name].truth
        change = judged(truth, was, now)
        sums[change] += 1
        rows.append(
            (name, truth, told(was), was.confidence, told(now), now.confidence, verdict_in_words(now).en, change)
        )
    print("| news | label | rules 1 | rules 3 | verdict | was it better |\n|---|---|---|---|---|---|")
    for name, truth, was_told, was_sure, now_told, now_sure, verdict, change in rows:
        print(f"| {name} | {truth} | {was_told} {was_sure:.2f} | {now_told} {now_sure:.2f} | {verdict} | {change} |")
    print("\n" + ", ".join(f"{word} {count}" for word, count in sorted(sums.items())))


def newest(log: LogFile) -> dict[str, Signal]:
    """Return the newest revision of each case's signal."""
    found: dict[str, Signal] = {}
    for record in log.signals:
        signal, _ = read_signal(record)
        if signal.case_id not in found or signal.revision > found[signal.case_id].revision:
            found[signal.case_id] = signal
    return found


def told(signal: Signal) -> str:
    """Return the order, and the stage where it is not final."""
    return action_in_words(signal).en + ("" if signal.stage == "final" else f" ({signal.stage})")


def judged(truth: str, was: Signal, now: Signal) -> str:
    """Return better, worse, less sure (of a true item, its order kept), same, or a dash for an item of neither label."""
    if truth not in {"true", "false"}:
        return "–"
    good = 1 if truth == "true" else -1
    acted = (now.action != "observe") - (was.action != "observe")
    surer = now.confidence - was.confidence
    moved = good * (acted or (0 if abs(surer) <= SAME else surer))
    if moved < 0 and truth == "true" and not acted:
        return "less sure"
    return "better" if moved > 0 else "worse" if moved < 0 else "same"


if __name__ == "__main__":
    main()
