"""Summary of a case, as lists show it, built from its events in order, whatever their source."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from schemas import envelope as wire
from schemas import events as ev

TEXT_CHARS = 280


class CaseItem(msgspec.Struct, kw_only=True):
    """One case of a list. ``state``: open or ended; ``outcome``: signal, dropped, failed, or empty while it is open."""

    case_id: str
    opened_at: datetime
    ended_at: datetime | None = None
    source: str = ""
    external_id: str | None = None
    language: str = ""
    text: str = ""
    state: str = "open"
    outcome: str = ""
    reason: str = ""
    event_type: str = ""
    asset: str = ""
    action: str = ""
    confidence: float | None = None
    signal_id: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its opening event was read."""
        return self.language != ""

    def take(self, env: wire.Envelope, event: Any) -> None:
        """Apply the next accepted event."""
        match event:
            case ev.EventReceived(news=news, language=language):
                self.source, self.external_id, self.language = news.source, news.external_id, language
                self.text = news.text[:TEXT_CHARS]
            case ev.CaseTriaged(draft=draft):
                self.event_type, self.asset, self.action = draft.event_type, draft.asset, draft.action
                self.confidence = draft.confidence
            case ev.SignalSynthesized(signal=signal):
                self.event_type, self.asset, self.action = signal.event_type, signal.asset, signal.action
                self.confidence, self.signal_id = signal.confidence, signal.signal_id
                self._end(env, "signal", signal.status)
            case ev.CaseDropped(reason=reason):
                self._end(env, "dropped", reason)
            case ev.CaseFailed(reason=reason):
                self._end(env, "failed", reason)
            case _:
                pass

    def _end(self, env: wire.Envelope, outcome: str, reason: str) -> None:
        self.state, self.ended_at, self.outcome, self.reason = "ended", env.time, outcome, reason


class FeedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a list or a stream; an empty field matches everything. Assets and types are case-insensitive."""

    asset: str = ""
    event_type: str = ""
    min_confidence: float = 0.0
    status: str = ""
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

    def takes(self, case: CaseItem) -> bool:
        """Return whether a case matches."""
        if self.state and case.state != self.state:
            return False
        if self.text and not self._names(case):
            return False
        return self.fits(case.asset, case.event_type, case.confidence)

    def _names(self, case: CaseItem) -> bool:
        asked = self.text.casefold()
        return (
            asked in case.text.casefold()
            or case.case_id.startswith(asked)
            or asked in case.source.casefold()
            or asked in (case.external_id or "").casefold()
        )
