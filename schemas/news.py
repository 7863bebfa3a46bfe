"""Raw news: the public input contract of the ``news`` topic, the checks of its records, and the ids of the cases they open.

Anything that speaks Kafka may write here, so nothing is trusted: size, encoding, nesting, types and dates are checked before a
case is opened. A record that fails becomes a dead letter with a reason that a person understands.

A news record may be another attempt at a failed case; a header says so, and the record opens a case of its own. The id of that
case is made of the failed case's id alone. So however often the record is sent, it opens one case. If that case fails too,
its own dead letter leads to the next attempt. A second look at an unconfirmed case is also a case of its own, whose id follows
from the first one's. It is on the first one's partition of the journal, so whoever reads that partition has already read the
first case's end.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
import orjson

from schemas.errors import ContractError
from schemas.ids import case_id, text_hash, uuid5
from schemas.topics import partition_of

MAX_NEWS_BYTES = 256 * 1024
"""Largest ``text`` in UTF-8 bytes. Longer news becomes a dead letter."""
MAX_RECORD_BYTES = 1024 * 1024
"""Largest whole record: the text plus everything beside it."""
MAX_DEPTH = 64
"""Deepest nesting of a record. The JSON standard leaves this to the reader; real news needs about 3."""
MAX_FUTURE = timedelta(minutes=10)
"""Maximum time that ``published_at`` may be ahead of the reader's clock, since clocks differ."""
ASKED_PREFIX = "verify:"
"""Prefix of the source of a claim that somebody asks about (``newsproof verify``). It is no news: see :func:`is_asked`."""
MAX_ORIGINS = 50
"""Maximum addresses that a news item may name as its origins."""
EARLIEST = datetime(2008, 10, 31, tzinfo=UTC)
"""The Bitcoin paper. Anything dated before it is a broken date, not news of this field."""


def is_asked(source: str) -> bool:
    """Return whether a source's items are claims that somebody asks about.

    Anybody may ask, so such a case affects no other: it publishes no signal, claims no text, is no report of a story, denies
    and corrects nothing, fires no watch, and is in no memory and no reputation.
    """
    return source.startswith(ASKED_PREFIX)


class News(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """One raw news item. Times are UTC.

    Unknown fields are kept in ``unknown``. ``extra`` is kept too; :func:`flags_of` reads its ``flags``, and the reputation of
    sources reads its ``group`` and ``previous_look_at``. ``origins``: addresses of the pages that the item was made of, for an
    item of a watch; neither they nor other pages of their owners corroborate it. ``mark``: HMAC-SHA256 (hex) by which the
    listener authenticates its own records; nobody else can write it.

    Values derived from the text are computed once: normalising and hashing cost more than the rest of intake.
    """

    source: str
    text: str
    published_at: datetime
    external_id: str | None = None
    language: str | None = None
    url: str | None = None
    author: str | None = None
    received_at: datetime | None = None
    media: tuple[Any, ...] = ()
    keywords_hit: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    mark: str | None = None
    extra: dict[str, Any] = {}
    unknown: dict[str, Any] = {}

    @cached_property
    def text_hash(self) -> str:
        """The hash of the normalised text: equal for copies that differ in layout only."""
        return text_hash(self.text)

    @property
    def identity(self) -> str:
        """The external id, or the hash of the normalised text if there is none."""
        return self.external_id if self.external_id is not None else self.text_hash

    @property
    def key(self) -> bytes:
        """The record key on ``news``: ``source:external_id``; a colon of the source's own is written ``%3A``."""
        source = self.source.replace("%", "%25").replace(":", "%3A") if _ESCAPED(self.source) else self.source
        return f"{source}:{self.identity}".encode()

    @cached_property
    def case_id(self) -> str:
        """The id of the case that this item opens."""
        return case_id(self.source, self.identity, self.text_hash)

    @property
    def is_asked(self) -> bool:
        """Whether somebody asks about it (:func:`is_asked`)."""
        return is_asked(self.source)

    @property
    def as_of(self) -> datetime:
        """The case's own time, up to which data may be used: the listener's ``received_at``, else ``published_at``."""
        return self.received_at or self.published_at


BACKFILLED_AFTER = timedelta(days=1)
"""Time after ``received_at`` from which an opened case is a backfill. Longer than an intake outage that is repaired, shorter
than any recording that is played again."""
BACKLOG_AFTER = timedelta(minutes=10)
"""Age at arrival from which news waits behind fresher news: nobody acts on it within minutes."""
NOT_LIVE_FLAGS = frozenset({"late", "backfilled"})
"""Words in ``extra.flags`` of an item that the listener did not have when it was published: ``late`` after its own outage,
``backfilled`` for past items on request."""


def flags_of(news: News) -> tuple[str, ...]:
    """Return the words of ``extra.flags``."""
    flags = news.extra.get("flags")
    return tuple(flag for flag in flags if isinstance(flag, str)) if isinstance(flags, list | tuple) else ()


def is_live(news: News, opened_at: datetime) -> bool:
    """Return whether the item was judged when it arrived, so its signal could be acted on only after it was emitted.

    ``opened_at`` is when the case's opening was appended to the journal. Live is what has a ``received_at``, no flag of
    ``NOT_LIVE_FLAGS``, and an opening at most ``BACKFILLED_AFTER`` after it. How old an item was when it was received does not
    matter: nobody here had it earlier (docs/adr/0020).
    """
    flagged = NOT_LIVE_FLAGS.intersection(flags_of(news))
    return news.received_at is not None and not flagged and opened_at - news.received_at <= BACKFILLED_AFTER


def knowable_at(news: News, opened_at: datetime) -> datetime:
    """Return the earliest time to act on the item: for live news not before its case was opened, else ``as_of``."""
    return max(news.as_of, opened_at) if is_live(news, opened_at) else news.as_of


def is_backlog(published_at: datetime, at: datetime) -> bool:
    """Return whether an item that arrived at this time is too old to go first (both UTC)."""
    return at - published_at > BACKLOG_AFTER


def fresh_key(raw: bytes | None, at: datetime) -> tuple[int, bool]:
    """Return a hash of the item's identity, and whether it is fresh, from three fields of the unchecked record.

    An unreadable record is not fresh: it keeps its turn, and becomes a dead letter there. Costs a few microseconds.
    """
    try:
        head = msgspec.json.decode(raw or b"", type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0, False
    aware = head.published_at.tzinfo is not None
    return hash((head.source, head.external_id or head.text)), aware and not is_backlog(head.published_at, at)


class _Head(msgspec.Struct, frozen=True):
    source: str
    text: str
    published_at: datetime
    external_id: str | None = None


_ESCAPED = re.compile("[%:]").search
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]").search
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BESIDE_BRACKETS = bytes(b for b in range(256) if b not in b"[]{}")
_JSON_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
_KNOWN = frozenset(f.name for f in msgspec.structs.fields(News)) - {"unknown"}


def decode_news(raw: bytes | None, *, now: datetime) -> News:
    """Check one record of ``news`` and return the item. ``now`` is the reader's clock, for future dates only.

    Raises:
        ContractError: with a stable ``reason`` (empty, too_large, not_utf8, too_deep, not_json, wrong_type,
            missing_field, bad_value, future_date) and a text that says what to change.
    """
    fields = _json_object(raw)
    unknown = {k: v for k, v in fields.items() if k not in _KNOWN}
    known = {k: v for k, v in fields.items() if k in _KNOWN and v is not None}
    for name in ("source", "text", "published_at"):
        if name not in known:
            raise ContractError(f"the required field {name!r} is missing: add it", reason="missing_field")
    try:
        news = msgspec.convert({**known, "unknown": unknown}, News)
    except msgspec.ValidationError as exc:
        raise ContractError(f"a field has the wrong type: {exc!s:.300}", reason="wrong_type") from exc
    return _checked(news, now)


def _json_object(raw: bytes | None) -> dict[str, Any]:
    if not raw or not raw.strip():
        raise ContractError("the record is empty: send a JSON object with source, text, published_at", reason="empty")
    if len(raw) > MAX_RECORD_BYTES:
        raise ContractError(
            f"the record has {len(raw)} bytes, at most {MAX_RECORD_BYTES} are read: shorten it", reason="too_large"
        )
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ContractError(
            f"the record is not UTF-8 (byte {exc.start}): encode it as UTF-8", reason="not_utf8"
        ) from exc
    _refuse_depth(raw)
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise ContractError(f"the record is not JSON: {exc!s:.300}", reason="not_json") from exc
    if not isinstance(value, dict):
        raise ContractError(
            f"a JSON {_JSON_NAMES[type(value)]} is not a news item: send a JSON object with source, text and published_at",
            reason="wrong_type",
        )
    return value


def _refuse_depth(raw: bytes) -> None:
    # The first check also counts brackets inside strings. Nearly every record passes it; the others get an exact check.
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for byte in _STRING.sub(b"", raw).translate(None, _BESIDE_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > MAX_DEPTH:
            raise ContractError(f"the record is nested deeper than {MAX_DEPTH}: flatten it", reason="too_deep")


def _checked(news: News, now: datetime) -> News:
    if not news.source.strip() or len(news.source) > 256:
        raise ContractError("source must have 1 to 256 characters", reason="bad_value")
    if news.external_id is not None and not 0 < len(news.external_id) <= 512:
        raise ContractError("external_id must have 1 to 512 characters, or be left out", reason="bad_value")
    if _CONTROL(news.source) or _CONTROL(news.external_id or ""):
        # Ids are made of these two, joined by a control character, which neither may contain.
        raise ContractError(
            "source and external_id must not hold control characters: leave them out", reason="bad_value"
        )
    if len(news.origins) > MAX_ORIGINS:
        raise ContractError(
            f"origins has {len(news.origins)} addresses, at most {MAX_ORIGINS} are read: leave some out",
            reason="bad_value",
        )
    if not news.text.strip():
        raise ContractError("text is empty: there is nothing to judge", reason="empty")
    size = len(news.text.encode("utf-8", "surrogatepass"))
    if size > MAX_NEWS_BYTES:
        raise ContractError(f"text has {size} bytes, at most {MAX_NEWS_BYTES} are read: shorten it", reason="too_large")
    return msgspec.structs.replace(
        news,
        published_at=_utc(news.published_at, "published_at", now),
        received_at=None if news.received_at is None else _utc(news.received_at, "received_at", now),
    )


def _utc(value: datetime, name: str, now: datetime) -> datetime:
    if value.tzinfo is None:
        raise ContractError(f"{name} has no time zone: write it as RFC 3339, such as …T14:00:00Z", reason="bad_value")
    try:
        value = value.astimezone(UTC)
    except OverflowError as exc:
        raise ContractError(f"{name} is out of range", reason="bad_value") from exc
    if value > now + MAX_FUTURE:
        raise ContractError(
            f"{name} {value.isoformat()} lies in the future: check the listener's clock", reason="future_date"
        )
    if value < EARLIEST:
        raise ContractError(
            f"{name} {value.isoformat()} lies before 2008: check the listener's dates", reason="bad_value"
        )
    return value


def mark_of(news: News, key: bytes) -> str:
    """Return the listener's mark: HMAC-SHA256 over every field of the item but the mark itself, as sorted JSON."""
    fields = msgspec.json.encode(msgspec.structs.replace(news, mark=None), order="sorted")
    return hmac.digest(key, b"newsproof news\n" + fields, hashlib.sha256).hex()


def is_marked(news: News, keys: Iterable[bytes]) -> bool:
    """Return whether the item has a valid listener's mark by one of these keys."""
    mark = (news.mark or "").encode()
    return bool(mark) and any(hmac.compare_digest(mark, mark_of(news, key).encode()) for key in keys)


def marked(record: bytes, key: bytes, *, now: datetime) -> tuple[News, bytes]:
    """Check a record as :func:`decode_news` does; return the item and the record, both with the listener's mark.

    Raises:
        ContractError: as :func:`decode_news`.
    """
    news = decode_news(record, now=now)
    mark = mark_of(news, key)
    return msgspec.structs.replace(news, mark=mark), orjson.dumps(orjson.loads(record) | {"mark": mark})


def language_of(news: News) -> str:
    """Return zh, en or other: the listener's value, else by the script of the letters."""
    if news.language:
        given = news.language.lower()[:2]
        return given if given in ("zh", "en") else "other"
    han = sum(1 for c in news.text if "\u4e00" <= c <= "\u9fff")
    latin = sum(1 for c in news.text if c.isascii() and c.isalpha())
    if han * 3 >= max(latin, 1):
        return "zh"
    return "en" if latin else "other"


RETRIES_HEADER = "np_retries"
"""Header of a ``news`` record: the id of the failed case to retry."""

_CASE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def retries_of(headers: Iterable[tuple[str, bytes | None]] | None) -> str | None:
    """Return the id of the failed case to retry, None for ordinary news.

    Raises:
        ContractError: the header contains no case id (reason ``bad_value``).
    """
    header = next((value for name, value in headers or () if name == RETRIES_HEADER), None)
    if header is None:
        return None
    text = header.decode("ascii", "replace")
    if _CASE_ID(text) is None:
        raise ContractError(
            f"the header {RETRIES_HEADER} must be the id of a case that failed: send it by `newsproof dlq requeue`",
            reason="bad_value",
        )
    return text


MOST_ATTEMPTS = 20
"""Maximum attempts at one news item, including the first one."""


def case_id_of(news: News, retries: str | None) -> str:
    """Return the id of the case that a record opens.

    Raises:
        ContractError: ``retries`` is no attempt at this item, or its last one (reason ``bad_value``). Otherwise one record
            sent with any ids would open a case for each.
    """
    attempt = news.case_id
    if retries is None:
        return attempt
    for _ in range(MOST_ATTEMPTS - 1):
        before, attempt = attempt, uuid5("attempt", attempt)
        if before == retries:
            return attempt
    raise ContractError(
        f"the header {RETRIES_HEADER} names no case of this item that may be tried again (there are {MOST_ATTEMPTS} attempts "
        "at most): send the item without the header, or the failed case's letter by `newsproof dlq requeue`",
        reason="bad_value",
    )


MOST_LOOKS = 4
"""Maximum second looks at one case."""


def look_id(of_case: str, number: int, partitions: int) -> str:
    """Return the id of the ``number``-th second look (from 1) at a case.

    ``partitions``: the journal's count. The id lies on the partition of ``of_case``.
    """
    ids = (uuid5("second-look", of_case, str(number), str(n)) for n in count())
    return next(id for id in ids if partition_of(id, partitions) == partition_of(of_case, partitions))


def with_looks(case_id: str, partitions: int) -> frozenset[str]:
    """Return the ids of a case and of all its possible second looks."""
    return frozenset({case_id, *(look_id(case_id, number, partitions) for number in range(1, MOST_LOOKS + 1))})
