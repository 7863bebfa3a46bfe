"""Sanitised tool requests. Everything that a model writes passes through here before it becomes a tool argument.

A model reads outside text and may repeat its instructions. So links, operators and brackets are removed, site names must
be in our table, numbers are bounded, and an address must already be in the evidence.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agents.core.answers import cite_only, clean_keywords, one_line

MAX_TASKS = 5
"""Sub-tasks of one round; a complex case needs three to five."""
PLATFORMS: dict[str, tuple[str, ...]] = {
    "wechat": ("mp.weixin.qq.com",),
    "zhihu": ("zhihu.com",),
    "xiaohongshu": ("xiaohongshu.com",),
    "douyin": ("douyin.com",),
    "x": ("x.com", "twitter.com"),
    "reddit": ("reddit.com",),
    "telegram": ("t.me",),
}
"""Platform → the sites that a platform search covers."""
_ALSO = {"微信": "wechat", "知乎": "zhihu", "小红书": "xiaohongshu", "抖音": "douyin", "twitter": "x"}
TIME_RANGES = {"day": 1, "week": 7, "month": 30, "year": 365}
"""Time range → days before the case's time."""
MAX_DAYS = 365
_MAX_ITEMS = 20
"""Items read from a list that a model wrote; the rest is ignored."""


class RequestedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One sub-task requested by a model, sanitised. A missing or unacceptable field is empty.

    ``url`` is only bounded here; the tool that takes it compares it with the addresses of the evidence.
    """

    tool: str
    claim: str = ""
    query: str = ""
    subject: str = ""
    platforms: tuple[str, ...] = ()
    days: int = 0
    url: str = ""
    texts: tuple[str, ...] = ()
    detail: bool = False


def wanted_tasks(raw: Any) -> tuple[RequestedTask, ...]:
    """Return the sub-tasks that a model wrote, each once, at most ``MAX_TASKS``.

    Malformed items are skipped: sub-tasks are optional, so they do not invalidate the reply.
    """
    items = raw[:_MAX_ITEMS] if isinstance(raw, list) else []
    cleaned = (_wanted(item) for item in items if isinstance(item, dict))
    return tuple(dict.fromkeys(w for w in cleaned if w.tool))[:MAX_TASKS]


def _wanted(item: dict[str, Any]) -> RequestedTask:
    return RequestedTask(
        tool=_text(item.get("tool"))[:40],
        claim=cite_only(one_line(_text(item.get("claim")), 200), None),
        query=clean_keywords(_text(item.get("query"))),
        subject=clean_keywords(_text(item.get("subject")) or _text(item.get("name")))[:60].strip(),
        platforms=_platforms(item.get("platforms")),
        days=_days(item),
        url=_text(item.get("url"))[:2_000],
        texts=tuple(t for t in _words(item.get("texts")) if t in ("news", "references", "pages")),
        detail=item.get("detect_changes") is True or item.get("extract_opinions") is True,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _words(value: Any) -> list[str]:
    items = value[:_MAX_ITEMS] if isinstance(value, list) else [value]
    return [item.strip().lower() for item in items if isinstance(item, str)]


def _platforms(value: Any) -> tuple[str, ...]:
    names = (_ALSO.get(word, word) for word in _words(value))
    return tuple(dict.fromkeys(name for name in names if name in PLATFORMS))


def _days(item: dict[str, Any]) -> int:
    days = item.get("days")
    if isinstance(days, int | float) and not isinstance(days, bool) and days == days:  # noqa: PLR0124 - not a NaN
        return int(min(max(days, 0), MAX_DAYS))
    return TIME_RANGES.get(_text(item.get("time_range")), 0)
