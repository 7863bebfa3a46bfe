"""Hostile records for ``news``: any Kafka client may write to this topic, so most hostile records go there."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from lab.hostile.pieces import BAD_TIMES, BYTES, SOURCES, TEXTS
from lab.hostile.record import Fate, Headers, HostileRecord

Made = tuple[bytes | None, Fate, Headers]
_MB = 1024 * 1024


def hostile_news(rng: Random, mark: str) -> HostileRecord:
    """Return one record; ``mark`` makes its text and id unique."""
    kinds, weights = zip(*((name, weight) for name, (weight, _) in _KINDS.items()), strict=True)
    kind = rng.choices(kinds, weights)[0]
    value, fate, headers = _KINDS[kind][1](rng, mark)
    key = rng.choice((b"hostile:" + mark.encode(), None, b"", b"\xff\xfe:" + mark.encode(), b"k" * 2000))
    return HostileRecord(kind=f"news: {kind}", topic="news", fate=fate, key=key, value=value, headers=headers)


def _item(mark: str, **changes: Any) -> dict[str, Any]:
    plain = {
        "source": "hostile",
        "external_id": mark,
        "text": f"Exchange lists token {mark}",
        "published_at": "2026-01-01T00:00:00Z",
    }
    return {k: v for k, v in {**plain, **changes}.items() if v is not ...}


def _raw(mark: str, **changes: Any) -> bytes:
    return json.dumps(_item(mark, **changes), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _text(rng: Random, mark: str) -> Made:
    return _raw(mark, text=f"{rng.choice(TEXTS)} {mark}"), "case", []


def _source(rng: Random, mark: str) -> Made:
    return _raw(mark, source=rng.choice(SOURCES), external_id=f"{rng.choice(('', ':', '../', '%'))}{mark}"), "case", []


def _collision(rng: Random, mark: str) -> Made:
    # a:b + c and a + b:c would have the same key if the boundary were not marked.
    source, external = rng.choice((("a:b", f"c{mark}"), ("a", f"b:c{mark}")))
    return _raw(mark, source=source, external_id=external), "case", []


def _twice(rng: Random, mark: str) -> Made:
    item = _raw(mark)
    return item[:-1] + b', "text": "' + mark.encode() + b' said twice", "source": "hostile"}', "case", []


def _with_headers(rng: Random, mark: str) -> Made:
    choices: tuple[Headers, ...] = (
        [("dl_requeued_from", b"0:0"), ("dl_topic", b"\xff"), ("dl_offset", b"-5"), ("dl_retries", b"9" * 400)],
        [("h", None), ("h", b"1"), ("h", b"2"), ("", b"")],
        [(b"\xff\xfe\x80", b"a name that is not UTF-8")],
        [("ce_type", b"newsproof.event_received"), ("ce_subject", b"\x00" * 36)],
        [(f"h{n}", b"x") for n in range(rng.choice((100, 10_000)) if rng.random() < 0.05 else 10)],
        [("large", b"x" * (_MB if rng.random() < 0.02 else 1000))],
    )
    return _raw(mark), "case", rng.choice(choices)


def _edge(rng: Random, mark: str) -> Made:
    limit = 256 * 1024
    over = rng.random() < 0.5
    unit, width = rng.choice((("x", 1), ("新", 3), ("\U0001f600", 4)))
    text = f"{mark} " + unit * ((limit - len(mark) - 1) // width + over)
    return _raw(mark, text=text), "dead_letter" if over else "case", []


def _unknown_fields(rng: Random, mark: str) -> Made:
    odd = {rng.choice(TEXTS)[:200]: rng.choice(TEXTS)[:200], "unknown": {"unknown": 1}, "__proto__": {}, "calls": [1]}
    return _raw(mark, **odd, extra={"deep": [[[[1]]]]}), "case", []


def _numbers(rng: Random, mark: str) -> Made:
    digits = b"9" * (1_000_000 if rng.random() < 0.02 else 5000)
    return _raw(mark)[:-1] + b', "n": ' + rng.choice((b"", b"-")) + digits + b"}", "case_or_dead_letter", []


def _bytes(rng: Random, mark: str) -> Made:
    return rng.choice(BYTES), "dead_letter", []


def _broken(rng: Random, mark: str) -> Made:
    item = _raw(mark)
    at = rng.randrange(1, len(item))
    broken = rng.choice(
        (
            item[:at],
            item + item,
            item.decode().encode("utf-16"),
            item[:at] + b"\xff" + item[at:],
            b"\xef\xbb\xbf" + item,
        )
    )
    return broken, "dead_letter", []


def _types(rng: Random, mark: str) -> Made:
    name = rng.choice(("source", "text", "published_at", "external_id", "received_at", "url", "media", "extra"))
    odd: Any = rng.choice((1, -0.0, True, [mark], {"a": mark}))
    if (name == "media" and odd == [mark]) or (name == "extra" and odd == {"a": mark}):
        odd = mark
    return _raw(mark, **{name: odd}), "dead_letter", []


def _missing(rng: Random, mark: str) -> Made:
    return _raw(mark, **{rng.choice(("source", "text", "published_at")): rng.choice((..., None))}), "dead_letter", []


def _times(rng: Random, mark: str) -> Made:
    name = rng.choice(("published_at", "received_at"))
    return _raw(mark, **{name: rng.choice(BAD_TIMES)}), "dead_letter", []


def _future(rng: Random, mark: str) -> Made:
    return _raw(mark, published_at=f"{rng.randrange(2100, 9999)}-01-01T00:00:00+05:45"), "dead_letter", []


def _ids(rng: Random, mark: str) -> Made:
    changes: dict[str, Any] = rng.choice(
        (
            {"external_id": ""},
            {"external_id": "i" * (_MB // 2 if rng.random() < 0.02 else 513)},
            {"source": "s" * 257},
            {"source": " \u3000"},
            {"source": "a\x1fb"},
            {"external_id": f"{mark}\x1f"},
            {"source": "new\nline"},
            {"external_id": "\x00"},
        )
    )
    return _raw(mark, **changes), "dead_letter", []


def _surrogate(rng: Random, mark: str) -> Made:
    half = rng.choice((b"\\ud800", b"\\udfff", b"\xed\xa0\x80"))
    return _raw(mark, text="HERE").replace(b"HERE", half), "dead_letter", []


def _deep(rng: Random, mark: str) -> Made:
    depth = rng.choice((65, 1000, 20_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return _raw(mark)[:-1] + b', "extra": {"d": ' + opening * depth + b"1" + closing * depth + b"}}", "dead_letter", []


def _blank(rng: Random, mark: str) -> Made:
    return _raw(mark, text=rng.choice(("", " ", "\u3000\n\t", "\u2003"))), "dead_letter", []


def _large(rng: Random, mark: str) -> Made:
    # The larger ones pass the broker compressed, and exceed the size of a dead letter.
    return _raw(mark, extra={"x": "y" * (rng.choice((1, 1, 2, 3, 6, 32)) * _MB)}), "dead_letter", []


_KINDS: dict[str, tuple[float, Callable[[Random, str], Made]]] = {
    "an odd text": (8, _text),
    "an odd source or id": (3, _source),
    "ids that would collide": (2, _collision),
    "a key twice": (2, _twice),
    "odd headers": (4, _with_headers),
    "fields nobody knows": (3, _unknown_fields),
    "numbers of many digits": (1, _numbers),
    "a text at the limit": (0.1, _edge),
    "bytes that are no item": (20, _bytes),
    "broken JSON": (15, _broken),
    "wrong types": (10, _types),
    "missing fields": (6, _missing),
    "impossible times": (8, _times),
    "the far future": (3, _future),
    "ids that are none": (6, _ids),
    "half a surrogate": (4, _surrogate),
    "deep nesting": (3, _deep),
    "a blank text": (2, _blank),
    "a record that is too large": (0.1, _large),
}
