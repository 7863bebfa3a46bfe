"""Settings that change while workers run: search providers, their keys, and the tools that the plan may use.

They are in a small file (``HOT_SETTINGS_FILE``, by default ``hot.env`` in the data directory) that every worker polls.
A change has two stages. First every worker creates the new adapters. A little later, new cases pin the new
snapshot. So no case calls a provider that some worker does not have yet, and open cases keep their snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from infra.origin import SENT_TO, refuse_foreign_addresses, written_in
from infra.ports import Ports
from infra.search import PROVIDERS
from infra.settings import Settings, load_settings
from newsproof.app.composition import refuse_unusable, search_adapter, search_providers, snapshot_of
from schemas.config import Snapshot
from schemas.errors import ConfigError, NewsproofError

LOOK_EVERY_S = 2.0
ADOPT_AFTER_S = 3 * LOOK_EVERY_S
"""Time within which every worker has read the file and created its adapters."""
_BEGINNINGS = ("search_", "quality_", "tool_", "deep_analysis_search_", *(f"{name}_" for name in PROVIDERS))
HOT = frozenset(
    name
    for name in Settings.model_fields
    if name.startswith(_BEGINNINGS) or name in {"high_value_confidence_threshold", "phase1_rollout_percentage"}
) - {"search_cache_ttl_seconds"}
_OF_ALL = ("deep_analysis_tool_timeout", "search_include_domains", "search_cost_usd")
"""Settings used by every search adapter except the one for our own log."""

log = structlog.get_logger(__name__)


def hot_file(settings: Settings) -> Path:
    return settings.hot_settings_file or settings.newsproof_data_dir / "hot.env"


def overlaid(settings: Settings, file: Path) -> Settings:
    """Return the settings with the file's values; unchanged without a file.

    Raises:
        ConfigError: the file names a setting that cannot change while running, an invalid value, or an address that
            would receive a secret configured elsewhere.
    """
    try:
        written = written_in(file)
    except (OSError, UnicodeError) as exc:
        raise ConfigError(f"{file} cannot be read ({exc}): correct it, or remove it") from exc
    if cold := sorted(set(written) - HOT):
        raise ConfigError(
            f"{file} names {', '.join(cold).upper()}, which cannot change while workers run: remove it there, "
            "set it in the environment or in .env, and start again"
        )
    if not written:
        return settings
    # By default the data directory is below the working directory, which may belong to someone else.
    refuse_foreign_addresses(file, written, {name for name in SENT_TO if getattr(settings, name)} - set(written))
    # Only the values that were set: a default that is written down would count as a person's choice.
    own = {name: getattr(settings, name) for name in settings.model_fields_set}
    return load_settings(**{"_env_file": None, **own, **written})


def changed_adapters(before: Settings, now: Settings) -> frozenset[str]:
    """Return the usable providers that need a new adapter.

    The others keep theirs, with its state, such as Arxiv's rate limit.
    """
    had, have = live_names(before), live_names(now)
    return frozenset(name for name in have if name not in had or _parts(before, name) != _parts(now, name))


def live_names(settings: Settings) -> frozenset[str]:
    """Return the names of the search providers in use; none outside live mode."""
    return frozenset(search_providers(settings)) if settings.mode == "live" else frozenset()


def _parts(settings: Settings, provider: str) -> list[object]:
    of_all = () if PROVIDERS[provider].make is None else _OF_ALL
    names = (n for n in Settings.model_fields if n.startswith(f"{provider}_") or n in of_all)
    return [getattr(settings, name) for name in names]


class HotSettings:
    """The file watch of one worker. ``adopt`` makes new cases pin a snapshot (:meth:`streams.worker.Worker.adopt`)."""

    def __init__(
        self,
        started: Settings,
        in_force: Settings,
        ports: Ports,
        adopt: Callable[[Snapshot], Awaitable[object]],
        *,
        look_every_s: float = LOOK_EVERY_S,
        adopt_after_s: float = ADOPT_AFTER_S,
    ) -> None:
        """``started``: the settings without the file. ``in_force``: those with which the worker was created."""
        self._started, self._in_force = started, in_force
        self._ports, self._adopt = ports, adopt
        self._look_every_s, self._adopt_after_s = look_every_s, adopt_after_s
        self._file = hot_file(started)
        self._seen: tuple[int, int] | None = (-1, -1)

    async def run(self) -> None:
        """Watch for changes until cancelled. An invalid change is logged, and the worker continues unchanged."""
        while True:
            if (stamp := self._stamp()) != self._seen and await self.look():
                self._seen = stamp
            await asyncio.sleep(self._look_every_s)

    async def look(self) -> bool:
        """Apply the file's present content; return whether there is nothing to retry."""
        try:
            now = overlaid(self._started, self._file)
            if now == self._in_force:
                return True
            refuse_unusable(now)
            snapshot = snapshot_of(now)
        except ConfigError as exc:
            log.error("hot_settings_refused", file=str(self._file), error=str(exc))
            return True
        self._ports.take_in({name: search_adapter(now, name) for name in changed_adapters(self._in_force, now)})
        await asyncio.sleep(self._adopt_after_s)
        try:
            await self._adopt(snapshot)
        except (NewsproofError, TimeoutError, OSError) as exc:
            log.warning("hot_settings_not_adopted_yet", error=str(exc))
            return False
        self._in_force = now
        log.info("hot_settings_adopted", config=snapshot.config_hash, search=snapshot.search_providers)
        return True

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
