"""The listener's key, and authentication of news: only records with the listener's mark are from a listed source."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from infra.late_log import log_of
from infra.listeners.source import own_file, refuse_listed, sources_of
from infra.owner_only import kept_secret, made_secret
from infra.redaction import know
from schemas.errors import ConfigError
from schemas.news import News, is_marked

if TYPE_CHECKING:
    from infra.settings import Settings

FILE = "listener-key"
"""File in the data directory. If LISTENER_KEY is unset, whoever can read this file can publish as any listed source."""


def listener_key(settings: Settings) -> bytes:
    """Return the key to mark news with: the setting's, else the data directory's, which the first call creates.

    Raises:
        ConfigError: the file cannot be read or written, or Newsproof did not write it.
    """
    if settings.listener_key is None:
        file = settings.newsproof_data_dir / FILE
        try:
            made_secret(file)
        except OSError as exc:
            raise ConfigError(
                f"the listener's key cannot be saved in {file} ({exc}): make it readable and writable, or set LISTENER_KEY"
            ) from exc
    return keys_at_hand(settings)[0]


def keys_at_hand(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys with which a mark is valid, first the key that new marks use; empty if there is no key here.

    Raises:
        ConfigError: the file cannot be read, or Newsproof did not write it.
    """
    if settings.listener_key is not None:
        return tuple(key.strip().encode() for key in settings.listener_key.get_secret_value().split(","))
    kept = kept_secret(settings.newsproof_data_dir / FILE)
    if kept is None:
        return ()
    know(kept)
    return (kept.encode(),)


class Marks:
    """Authenticates the sources of news. Without a key nothing is authenticated; a key created later is found."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys: tuple[bytes, ...] = ()
        self._listed: Collection[str] = sources_of(None)

    def is_marked(self, news: News) -> bool:
        """Return whether the listener published this item, that is, its mark is valid.

        Raises:
            ConfigError: as :func:`keys_at_hand`.
        """
        return news.mark is not None and is_marked(news, self._at_hand())

    def authenticate(self, news: News) -> bool:
        """Return whether the item's mark is valid, and refuse items that only claim a listed source.

        Raises:
            ContractError: unmarked_source: the item names a listed source, and its mark is not valid. Without a key,
                marks cannot be checked, so nothing is refused.
            ConfigError: as :func:`keys_at_hand`.
        """
        if self.is_marked(news):
            return True
        if self._at_hand():
            refuse_listed(news.source, self._ids())
        return False

    def _at_hand(self) -> tuple[bytes, ...]:
        if not self._keys:
            self._keys = keys_at_hand(self._settings)
        return self._keys

    def _ids(self) -> Collection[str]:
        try:
            self._listed = sources_of(own_file(self._settings))
        except ConfigError as exc:
            log_of(__name__).warning("the list of sources cannot be read: the previous one stays in use", why=str(exc))
        return self._listed
