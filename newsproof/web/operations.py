"""Document of the Operations page, built from process metrics and from the service's own readings.

A metric that no process reports is null, meaning unknown. It is never shown as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from newsproof.app.dead_letters import DeadLetter, standing_of
from newsproof.web.processes import Figures, Process
from schemas.topics import Topics
from streams.feed.case_items import FeedCase

LIMITS: dict[str, float] = {
    "consumer_lag": 1_000,
    "oldest_open_case_s": 900,
    "budget_left_share": 0.1,
    "sink_lag": 5_000,
    "no_news_s": 1_800,
    "source_failures": 5,
    "exit_pending_s": 300,
    "captchas_share": 0.2,
    "captchas": 5,
}
"""Limits beyond which a metric is a problem. infra/grafana/alerts.yml has the same numbers."""
_BREAKERS = ("closed", "half_open", "open")


def operations(
    processes: Sequence[Process],
    figures: Figures,
    *,
    topics: Topics,
    letters: Sequence[DeadLetter] | None,
    cases: Sequence[FeedCase] | None,
    now: datetime,
) -> dict[str, Any]:
    """Return the metrics by subject, and ``problems``: the names of those beyond their limits.

    ``letters`` and ``cases`` (the recent ones) are None while they are being read or Kafka is unavailable. Ages are in
    seconds.
    """
    overview = {
        "at": now,
        "limits": LIMITS,
        "processes": processes,
        "log": _log(figures, topics),
        "cases": _cases(figures, cases, now),
        "dead_letters": None if letters is None else _letters(letters, topics.news),
        "budget": _budget(figures),
        "breakers": _breakers(figures)
        if any(process.kind == "worker" and process.state != "away" for process in processes)
        else None,
        "audit": _audit(figures),
        "publishers": figures.one(sum, "newsproof_publisher_active"),
    }
    return overview | {
        "problems": [*_problems(overview), *_of_pages(figures), *_of_sources(figures), *_of_bots(figures)]
    }


def _log(figures: Figures, topics: Topics) -> dict[str, Any]:
    behind = {
        name: figures.one(sum, "newsproof_consumer_lag", topic=topic)
        for name, topic in (("news", topics.news), ("cases", topics.cases), ("research", topics.research))
    }
    waits = figures.one(max, "newsproof_sink_waits")
    return {
        "behind": behind,
        "sink_behind": figures.one(sum, "newsproof_sink_lag"),
        "sink_waits": None if waits is None else waits > 0,
        "stalled_s": figures.one(max, "newsproof_partition_stalled_seconds"),
        "paused_by": sorted({labels["reason"] for _, labels, on in figures.of("newsproof_intake_paused") if on}),
    }


def _cases(figures: Figures, cases: Sequence[FeedCase] | None, now: datetime) -> dict[str, Any]:
    running = None if cases is None else [case for case in cases if case.status == "open"]
    oldest = min(running or (), key=lambda case: case.received_at, default=None)
    newest = max((case.received_at for case in cases or ()), default=None)
    return {
        "open": None if running is None else len(running),
        "may_be_open": figures.one(sum, "newsproof_max_open_cases"),
        "oldest": oldest and {"case_id": oldest.case_id, "age_s": (now - oldest.received_at).total_seconds()},
        "newest_at": newest,
        "no_news_s": newest and (now - newest).total_seconds(),
    }


def _letters(letters: Sequence[DeadLetter], news: str) -> dict[str, Any]:
    counted = Counter((letter.reason, standing_of(letter, news)) for letter in letters)
    newest = {letter.reason: letter.at for letter in letters}  # they come oldest first
    reasons = [
        {
            "reason": reason,
            "count": sum(n for (of, _), n in counted.items() if of == reason),
            "waiting": counted[reason, "waiting"],
            "newest_at": at,
        }
        for reason, at in newest.items()
    ]
    return {
        "count": len(letters),
        "waiting": sum(n for (_, standing), n in counted.items() if standing == "waiting"),
        "by_reason": sorted(reasons, key=lambda reason: (-reason["waiting"], -reason["count"], reason["reason"])),
    }


def _budget(figures: Figures) -> list[dict[str, Any]] | None:
    kinds = (
        ("month_usd", "newsproof_budget_limit_usd", "newsproof_budget_left_usd"),
        ("triage_usd", "newsproof_budget_triage_limit_usd", "newsproof_budget_triage_left_usd"),
        ("tool_calls", "newsproof_budget_limit_units", "newsproof_budget_left_units"),
    )
    limits = [(kind, figures.one(max, limit), figures.one(min, left)) for kind, limit, left in kinds]
    return [
        {"kind": kind, "limit": limit, "left": left, "spent": round(limit - left, 9)}
        for kind, limit, left in limits
        if limit is not None and left is not None
    ] or None


def _breakers(figures: Figures) -> list[dict[str, Any]]:
    return [
        {
            "process": process,
            **labels,
            "state": _BREAKERS[int(state)],
            "opened": figures.one(sum, "newsproof_breaker_opened_total", **labels),
        }
        for process, labels, state in figures.of("newsproof_breaker_state")
    ]


def _audit(figures: Figures) -> dict[str, Any] | None:
    at = figures.one(max, "newsproof_audit_timestamp_seconds")
    if at is None:
        return None
    # With several data directories, the latest audit counts.
    latest = next(process for process, _, value in figures.of("newsproof_audit_timestamp_seconds") if value == at)
    broken = {
        labels["promise"]: int(n) for process, labels, n in figures.of("newsproof_audit_broken") if process == latest
    }
    return {"at": datetime.fromtimestamp(at, UTC), "clean": not any(broken.values()), "broken": broken}


def _of_pages(figures: Figures) -> list[str]:
    captchas = figures.one(sum, "newsproof_captchas_total") or 0
    opened = figures.one(sum, "newsproof_calls_total", kind="scrape") or 0
    is_bad = captchas > LIMITS["captchas"] and captchas > LIMITS["captchas_share"] * opened
    return ["captchas"] if is_bad else []


def _of_sources(figures: Figures) -> list[str]:
    failures = figures.one(max, "newsproof_listener_source_failures") or 0
    stale = figures.one(max, "newsproof_listener_source_state", state="stale") or 0
    bad = {"source_failing": failures > LIMITS["source_failures"], "source_stale": stale > 0}
    return [name for name, is_bad in bad.items() if is_bad]


def _of_bots(figures: Figures) -> list[str]:
    oldest = figures.one(max, "newsproof_bot_oldest_pending_exit_seconds") or 0
    return ["exit_pending"] if oldest > LIMITS["exit_pending_s"] else []


def _problems(overview: dict[str, Any]) -> list[str]:
    """Return the names of current problems. An alert with the same name fires only after its delay."""
    log, cases, letters = overview["log"], overview["cases"], overview["dead_letters"]
    left = {limit["kind"]: limit["left"] / limit["limit"] for limit in overview["budget"] or () if limit["limit"]}
    bad = {
        "not_one_publisher": overview["publishers"] not in (None, 1),
        "process_down": any(process.state == "away" for process in overview["processes"]),
        "consumer_lag": any((n or 0) > LIMITS["consumer_lag"] for n in log["behind"].values()),
        "sink_behind": bool(log["sink_waits"]) or (log["sink_behind"] or 0) > LIMITS["sink_lag"],
        "oldest_open_case": cases["oldest"] is not None and cases["oldest"]["age_s"] > LIMITS["oldest_open_case_s"],
        "no_news": (cases["no_news_s"] or 0) > LIMITS["no_news_s"],
        "dead_letters": letters is not None and letters["waiting"] > 0,
        "budget_low": left.get("month_usd", 1) < LIMITS["budget_left_share"],
        "tool_calls_low": left.get("tool_calls", 1) < LIMITS["budget_left_share"],
        "breaker_open": any(breaker["state"] != "closed" for breaker in overview["breakers"] or ()),
        "audit_failed": overview["audit"] is not None and not overview["audit"]["clean"],
    }
    return [name for name, is_bad in bad.items() if is_bad]
