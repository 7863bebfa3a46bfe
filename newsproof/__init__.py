"""The face of Newsproof. For programs: publish news, subscribe to signals, verify a claim.

    async for signal in newsproof.subscribe(min_confidence=0.7):
        ...

Importing this package loads nothing. Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from newsproof.app import version
    from newsproof.sdk.client import PublishReport, publish, run_bot, subscribe
    from newsproof.sdk.verification import Verification, verify
    from schemas.errors import NewsproofError
    from schemas.news import News
    from schemas.signals import Signal

    __version__ = version.VERSION

__all__ = [
    "News",
    "NewsproofError",
    "PublishReport",
    "Signal",
    "Verification",
    "__version__",
    "publish",
    "run_bot",
    "subscribe",
    "verify",
]

_WHERE = {
    "publish": ("newsproof.sdk.client", "publish"),
    "run_bot": ("newsproof.sdk.client", "run_bot"),
    "subscribe": ("newsproof.sdk.client", "subscribe"),
    "verify": ("newsproof.sdk.verification", "verify"),
    "Verification": ("newsproof.sdk.verification", "Verification"),
    "PublishReport": ("newsproof.sdk.client", "PublishReport"),
    "NewsproofError": ("schemas.errors", "NewsproofError"),
    "News": ("schemas.news", "News"),
    "Signal": ("schemas.signals", "Signal"),
    "__version__": ("newsproof.app.version", "VERSION"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'newsproof' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
