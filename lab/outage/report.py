"""The result of an outage run by minute, and its table."""

from __future__ import annotations

import msgspec

from newsproof.app.sheet import Sheet


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated minute. Cases count in the minute of their publication, ``asked`` in that of the call.

    ``whole`` signals had their evidence searched and judged. ``marked`` signals say what was missing. ``failed`` cases
    ended without a signal. ``slowest_s`` is the longest time from publication to the end.
    """

    minute: int
    away: bool
    asked: int
    whole: int = 0
    marked: int = 0
    failed: int = 0
    slowest_s: float = 0.0


class OutageReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``flags`` counts the flags of the marked signals."""

    trouble: str
    kind: str
    fallback: bool
    minutes: tuple[Minute, ...]
    flags: dict[str, int]
    held_back: int
    states: dict[str, int]
    simulated_s: float
    real_s: float

    @property
    def factor(self) -> float:
        """Simulated seconds per real second."""
        return self.simulated_s / self.real_s

    def table(self) -> str:
        """Return the run as a Markdown table."""
        behind = "with" if self.fallback else "without"
        columns = ("minute", "provider", "calls to it", "verified", "marked", "failed", "slowest s")
        rows = [
            (m.minute, "away" if m.away else "there", m.asked, m.whole, m.marked, m.failed, f"{m.slowest_s:.0f}")
            for m in self.minutes
        ]
        lines = [
            f"{self.trouble} away ({self.kind}), {behind} a fallback; {self.simulated_s / 60:.0f} simulated minutes "
            f"in {self.real_s:.1f} s ({self.factor:.0f} times real time); held back at most {self.held_back}",
            "",
            Sheet(columns, rows, right=(columns[0], *columns[2:])).markdown(),
        ]
        flag_counts = ", ".join(f"{flag} × {count}" for flag, count in sorted(self.flags.items()))
        return "\n".join([*lines, "", f"flags: {flag_counts or 'none'}"])
