"""Summary of a case, as a feed holds it, and the filter of lists and streams."""

from __future__ import annotations

from datetime import datetime

import msgspec

from schemas import envelope as wire
from schemas import events as ev
from schemas.signals import Signal
from streams.journal.case_reading import STATUSES, CaseRow

TEXT_CHARS = 280


class FeedCase(CaseRow, kw_only=True):
    """Row of a case whose first events may not have been read. ``text`` is cut to ``TEXT_CHARS``.

    ``withdrawn``: retracted or superseded, where it is known that the case's signal was.
    """

    ended_at: datetime | None = None
    language: str = ""
    confidence: float | None = None
    withdrawn: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether its opening event was read."""
        return self.language != ""

    def take(self, env: wire.Envelope, event: ev.Event) -> None:
        """Apply the next accepted event."""
        super().take(env, event)
        self.close(env)
        match event:
            case ev.EventReceived(news=news, language=language):
                self.text, self.language = news.text[:TEXT_CHARS], language
            case ev.CaseTriaged(draft=judged) | ev.SignalSynthesized(signal=judged):
                self.confidence = judged.confidence
            case _:
                pass

    def close(self, env: wire.Envelope) -> None:
        """End the case if this envelope ends it, whether or not its event can be read."""
        if env.type in STATUSES:
            self.status, self.ended_at = STATUSES[env.type], env.time


class FeedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a list or a stream; an empty field matches everything. Assets and types are case-insensitive."""

    asset: str = ""
    event_type: str = ""
    min_confidence: float = 0.0
    stage: str = ""
    verdict: str = ""
    state: str = ""
    text: str = ""

    def fits(self, asset: str, event_type: str, confidence: float | None) -> bool:
        """Return whether this asset, type and confidence match.

        None as confidence (not known yet) matches unless the filter has a minimum.
        """
        if self.asset and asset.casefold() != self.asset.casefold():
            return False
        if self.event_type and event_type.casefold() != self.event_type.casefold():
            return False
        return self.min_confidence <= 0 or (confidence is not None and confidence >= self.min_confidence)

    def fits_signal(self, signal: Signal) -> bool:
        """Return whether a signal matches, by its stage and verdict too."""
        return (
            self.fits(signal.asset, signal.event_type, signal.confidence)
            and self.stage in ("", signal.stage)
            and self.verdict in ("", signal.verdict)
        )

    def takes(self, case: FeedCase) -> bool:
        """Return whether a case matches."""
        if self.state and (self.state == "open") != (case.status == "open"):
            return False
        if self.text and not self._names(case):
            return False
        return self.fits(case.asset, case.event_type, case.confidence)

    def _names(self, case: FeedCase) -> bool:
        asked = self.text.casefold()
        return (
            asked in case.text.casefold()
            or case.case_id.startswith(asked)
            or asked in case.source.casefold()
            or asked in (case.external_id or "").casefold()
        )
