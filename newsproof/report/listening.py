"""What came in by itself in ``demo --listen``, and what became of it: counted in the log, against what the newsroom told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from infra.offline.newsroom.newsroom import OUTLETS, Shown
from newsproof.app.invocation import say_result, table
from schemas.news import News
from schemas.printable import shortened
from schemas.signals import Signal
from streams.listening.memory import SourceCursor

Text = tuple[str, str]
"""A source, and the hash of a text of its."""


class Opened(msgspec.Struct):
    """A case that was opened. ``told_before``: the case of which it ended as another telling."""

    source: str
    external_id: str
    text_hash: str
    told_before: str = ""
    reason: str = ""
    """Why it ended without a signal; "" where it has not."""

    @property
    def text(self) -> Text:
        return self.source, self.text_hash


class ListenSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of ``demo --listen --json``.

    ``kinds``, ``sources``: of sources that became news. ``items``: told by the newsroom and published by the listener.
    ``stories``: cases without those that ended as another one's copy or story. ``edits``: items published again with another text.
    ``lost``: items that the newsroom told and that are in no case. ``second_cases``: cases beyond one for an item and text that it
    told. ``seconds``: of the whole command, from its first word to the last table.
    """

    kinds: int
    sources: int
    items: int
    stories: int
    cases: int
    edits: int
    lost: int
    second_cases: int
    seconds: float


def in_no_case(shown: Iterable[Shown], cases: Iterable[Opened]) -> list[Shown]:
    """Return the items of which no text has a case. An edit in a case stands for its item, too."""
    found = {one.text for one in cases}
    held = {(one.source, one.of) for one in shown if (one.source, one.text_hash) in found}
    return [one for one in shown if not one.is_edit and (one.source, one.of) not in held]


def summary_of(
    shown: Sequence[Shown], published: Iterable[News], cases: Mapping[str, Opened], seconds: float
) -> ListenSummary:
    """Count. ``published``: the records of ``news``; ``cases``: by case id."""
    texts = {(one.source, one.identity, one.text_hash) for one in published}
    items, sources = {one[:2] for one in texts}, {one[0] for one in texts}
    known = {(one.source, one.text_hash): (one.source, one.of) for one in shown}
    opened = Counter(one.text for one in cases.values())
    return ListenSummary(
        kinds=len({OUTLETS[name][0] for name in sources}),
        sources=len(sources),
        items=len({known[source, text] for source, _, text in texts if (source, text) in known}),
        stories=sum(not one.told_before for one in cases.values()),
        cases=len(cases),
        edits=len(texts) - len(items),
        lost=len(in_no_case(shown, cases.values())),
        second_cases=sum(count - (text in known) for text, count in opened.items()),
        seconds=round(seconds, 2),
    )


def print_what_came(
    summary: ListenSummary,
    published: Iterable[News],
    cursors: Mapping[str, SourceCursor],
    cases: Mapping[str, Opened],
    signals: Iterable[Signal],
) -> None:
    """Print it in words."""
    texts = {(one.source, one.identity, one.text_hash) for one in published}
    told, items = (Counter(one[0] for one in found) for found in (texts, {one[:2] for one in texts}))
    rows = []
    for name, (kind, _) in OUTLETS.items():
        cursor = cursors.get(name, SourceCursor(source=name))
        how = shortened(f"{cursor.state}: {cursor.why}" if cursor.why else cursor.state, 56)
        rows.append((name, kind, items[name], told[name] - items[name], cursor.counts.get("repeat", 0), how))
    columns = ("source", "kind", "items", "edits", "shown again", "state")
    table(columns, rows, title="Items received", right=columns[2:5])
    say_result("shown again: known items in a changed response, counted at each poll. They opened no case.")
    newest = {one.signal_id: one for one in sorted(signals, key=lambda one: one.revision)}
    verdicts = Counter("retracted" if one.stage == "retracted" else one.verdict for one in newest.values())
    ended = Counter(one.reason for one in cases.values() if one.reason)
    rows_of = [(f"a signal: {verdict}", count) for verdict, count in verdicts.most_common()]
    rows_of += [(f"no signal: {_ENDS.get(reason, reason)}", count) for reason, count in ended.most_common()]
    table(("result", "cases"), rows_of, title="Results", right=("cases",))
    say_result(
        f"{summary.items} items from {summary.sources} sources of {summary.kinds} kinds, and {summary.edits} edits, opened "
        f"{summary.cases} cases in {summary.stories} stories. Lost: {summary.lost}; second cases: {summary.second_cases}."
    )


_ENDS = {
    "duplicate": "identical to an earlier report",
    "same_story": "later report of a story",
    "spam": "advertising or a scam",
    "empty": "nothing to judge",
}
