"""The listener as a process: built from settings, runs until a signal, and receives webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import structlog

from infra.kafka.topics import KafkaAddress
from infra.listeners.fetching import Fetcher
from infra.listeners.mark import listener_key
from infra.listeners.source import Source, chosen, missing, own_file, sources_of
from infra.listeners.webhook import HookServer, application, keys_of_hooks
from infra.settings import Settings
from newsproof.app.composition import address_of, prepare_topics, topics_of
from newsproof.app.processes.health import listener_unready, serve_health
from newsproof.app.processes.lifecycle import run_until, shutdown_on_signal
from newsproof.app.processes.metrics import ListenerMetrics
from newsproof.app.source_list import keys_of
from schemas.errors import ConfigError
from schemas.news import marked
from streams.listening.listener import Health, Listener, Options

log = structlog.get_logger(__name__)
COSTS = (
    "Ten reports of one event are ten cases, and each pays for its triage. A case that adds nothing to a confirmed or likely signal ends there; the others pay for their own analysis. "
    "`newsproof sources mute ID` turns a source off, and the budget limits the cost."
)
"""What commands print before a listener starts."""


class Sources:
    """The active sources, read again when the operator's file changes. An invalid change is logged and not applied."""

    def __init__(self, settings: Settings, only: Iterable[str] = ()) -> None:
        """Raises ConfigError: the file is invalid, ``only`` names an unknown source, or no source is on."""
        self._file, self._settings, self._only = own_file(settings), settings, tuple(only)
        self._stamp: int | None = None
        self.listed: dict[str, Source] = {}
        self.lacking: dict[str, str] = {}
        """Sources that are on but left out → the setting that is missing."""
        self._on: list[Source] = []
        self._read()
        if not self._on:
            raise ConfigError(
                "no source is on: `newsproof sources` lists them, `newsproof sources mute ID --off` turns one on"
            )

    def __call__(self) -> list[Source]:
        try:
            if self._stamp_now() != self._stamp:
                self._read()
                log.info("the list of sources changed", sources=len(self._on))
        except ConfigError as exc:
            log.error("the list of sources is invalid; the previous list stays in use", why=str(exc))
        return self._on

    def _read(self) -> None:
        self._stamp = self._stamp_now()
        self.listed = sources_of(self._file)
        on = chosen(self.listed, self._only)
        contact, keys = self._settings.listener_contact, keys_of(self._settings)
        self.lacking = {source.id: do for source in on if (do := missing(source, contact, keys))}
        self._on = [source for source in on if source.id not in self.lacking]

    def _stamp_now(self) -> int | None:
        try:
            return None if self._file is None else self._file.stat().st_mtime_ns
        except OSError:
            return None


def listener_of(settings: Settings, sources: Sources, fetcher: Fetcher, backfill: timedelta | None) -> Listener:
    """Return the listener for these settings.

    Raises:
        ConfigError: ``backfill`` is longer than ``DEDUP_DAYS``.
    """
    kept = timedelta(days=settings.dedup_days)
    if backfill is not None and not timedelta(0) < backfill <= kept:
        raise ConfigError(
            f"--backfill covers at most {settings.dedup_days} days (DEDUP_DAYS), because older news would open second cases: "
            "write, for example, 24h or 3d"
        )
    options = Options(
        max_age_s=settings.listener_max_age_seconds,
        max_new=settings.listener_max_new,
        kept_days=settings.dedup_days,
        backfill=backfill,
    )
    return Listener(address_of(settings), topics_of(settings), sources, fetcher, options, listener_key(settings))


async def run_listener(settings: Settings, *, only: Iterable[str] = (), backfill: timedelta | None = None) -> None:
    """Listen until SIGINT or SIGTERM.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    signalled = shutdown_on_signal()
    sources = Sources(settings, only)
    fetcher = Fetcher(contact=settings.listener_contact, keys=keys_of(settings))
    listener = listener_of(settings, sources, fetcher, backfill)
    await prepare_topics(settings)
    hooks = Webhooks(settings)
    await hooks.start()
    serve_health(settings, ListenerMetrics(listener), lambda: listener_unready(listener), kind="listener")
    log.info("listener starts", sources=len(sources()), left_out=sources.lacking)
    try:
        await run_until(signalled, (listener.run, listener.stop))
    finally:
        await hooks.stop()
        await fetcher.close()
    log.info("listener ended in order")


async def look_once(settings: Settings, *, only: Iterable[str], backfill: timedelta | None) -> dict[str, Health]:
    """Poll every source once and publish new items; return the health of each.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    fetcher = Fetcher(contact=settings.listener_contact, keys=keys_of(settings))
    listener = listener_of(settings, Sources(settings, only), fetcher, backfill)
    await prepare_topics(settings)
    try:
        return await listener.once()
    finally:
        await fetcher.close()


class Webhooks:
    """The port for webhooks, if the settings open one. Any number of processes may open it: it keeps no state."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError: a port is set without a valid secret."""
        self._address: KafkaAddress = address_of(settings)
        self._topic = topics_of(settings).news
        self._at = (settings.listener_webhook_host, settings.listener_webhook_port)
        secret = settings.listener_webhook_secret
        if self._at[1] is not None and secret is None:
            raise ConfigError(
                "LISTENER_WEBHOOK_PORT is set, but LISTENER_WEBHOOK_SECRET is not: set it, or unset the port"
            )
        keys = {} if secret is None else keys_of_hooks(secret.get_secret_value())
        self._server = HookServer(application(keys, self._accept))
        self._producer = self._address.producer(linger_ms=0) if self._at[1] is not None else None
        self._mark = listener_key(settings) if self._at[1] is not None else b""

    async def start(self) -> None:
        """Open the port, if one is set.

        Raises:
            ConfigError: it cannot be opened.
        """
        host, port = self._at
        if self._producer is None or port is None:
            return
        await self._producer.start()
        try:
            port = await self._server.start(host, port)
        except OSError as exc:
            raise ConfigError(
                f"LISTENER_WEBHOOK_PORT={port} cannot be opened on LISTENER_WEBHOOK_HOST={host} ({exc.strerror}): choose another port"
            ) from exc
        log.info("webhooks are taken", host=host, port=port)

    async def stop(self) -> None:
        """Close the port. Idempotent."""
        await self._server.stop()
        if self._producer is not None:
            await self._producer.stop()

    async def _accept(self, value: bytes) -> None:
        assert self._producer is not None
        news, value = marked(value, self._mark, now=datetime.now(UTC))
        await self._producer.send_and_wait(self._topic, value, key=news.key)
