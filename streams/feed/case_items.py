"""Summary of a case, as a feed holds it, and the filter of lists and streams."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from schemas import envelope as wire
from schemas import events as ev
from schemas.signals import Signal
from streams.journal.case_reading import STATUSES, CaseRow

TEXT_CHARS = 280


class FeedCase(CaseRow, kw_only=True):
    """Row of a case whose first events may not have been read. ``text`` is cut to ``TEXT_CHARS``.

    ``withdrawn``: retracted or superseded, where it is known that the case's signal was. ``verdict``: of the signal; empty
    without one.
    """

    ended_at: datetime | None = None
    language: str = ""
    confidence: float | None = None
    withdrawn: str = ""
    verdict: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether its opening event was read."""
        return self.language != ""

    def take(self, env: wire.Envelope, event: ev.Event) -> None:
        """Apply the next accepted event."""
        if self.ignores(event):
            return
        super().take(env, event)
        self.close(env)
        match event:
            case ev.EventReceived(text=text, language=language):
                self.text, self.language = text[:TEXT_CHARS], language
            case ev.CaseTriaged(draft=draft):
                self.confidence = draft.confidence
            case ev.SignalSynthesized(signal=signal):
                self.confidence, self.verdict = signal.confidence, signal.verdict or ""
            case _:
                pass

    def close(self, env: wire.Envelope) -> None:
        """End the case if this envelope ends it, whether or not its event can be read."""
        if env.type in STATUSES:
            self.status, self.ended_at = STATUSES[env.type], env.time


class Facts(NamedTuple):
    """The fields that lists and streams are filtered by. A case has the first four; ``confidence`` None: not known yet.

    ``words``: what is searched for words; None where that is not held, which any words match.
    """

    asset: str
    event_type: str
    confidence: float | None
    source: str
    action: str = ""
    verdict: str | None = None
    stage: str = ""
    supporting: int | None = None
    words: tuple[str, ...] | None = None


def facts_of(signal: Signal) -> Facts:
    """Return the facts of a signal; ``source`` is that of its news."""
    return Facts(
        *(signal.asset, signal.event_type, signal.confidence, signal.news_source),
        *(signal.action, signal.verdict, signal.stage, signal.supporting_sources),
        words=(
            *(signal.asset, signal.asset_name, signal.news_source, signal.case_id),
            *(signal.summary, signal.summary_en or "", signal.summary_zh or ""),
        ),
    )


class FeedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a list or a stream; an empty field matches everything. No field is case-sensitive.

    ``asset``, ``verdict`` and ``stage``: one or several, with commas. ``text``: words, of which a signal has to contain each; a case, the whole text.
    ``min_sources``: least supporting sources. It, ``action``, ``verdict`` and ``stage`` filter signals alone.
    """

    asset: str = ""
    event_type: str = ""
    min_confidence: float = 0.0
    source: str = ""
    action: str = ""
    verdict: str = ""
    stage: str = ""
    min_sources: int = 0
    state: str = ""
    text: str = ""

    def fits(self, facts: Facts) -> bool:
        """Return whether these facts match. A confidence that is not known yet matches unless the filter has a minimum."""
        if self.asset and facts.asset.casefold() not in self.assets:
            return False
        for wanted, value in ((self.event_type, facts.event_type), (self.source, facts.source)):
            if wanted and wanted.casefold() != value.casefold():
                return False
        if self.text and facts.words is not None:
            words = "\n".join(facts.words).lower()
            if not all(word in words for word in self.text.lower().split()):
                return False
        if self.min_confidence > 0 and (facts.confidence is None or facts.confidence < self.min_confidence):
            return False
        return not facts.action or (
            self.action in ("", facts.action)
            and (not self.verdict or facts.verdict in self.verdict.split(","))
            and (not self.stage or facts.stage in self.stage.split(","))
            and self.min_sources <= (facts.supporting or 0)
        )

    @property
    def assets(self) -> list[str]:
        """The assets that match, in lower case."""
        return [asset.strip() for asset in self.asset.casefold().split(",")]

    def takes(self, case: FeedCase) -> bool:
        """Return whether a case matches."""
        if self.state and (self.state == "open") != (case.status == "open"):
            return False
        if self.text and not self._names(case):
            return False
        return self.fits(Facts(case.asset, case.event_type, case.confidence, case.source))

    def _names(self, case: FeedCase) -> bool:
        asked = self.text.casefold()
        return (
            asked in case.text.casefold()
            or case.case_id.startswith(asked)
            or asked in case.source.casefold()
            or asked in (case.external_id or "").casefold()
        )
