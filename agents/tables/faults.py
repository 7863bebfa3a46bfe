"""Faults of a set of tables: duplicates, entries that nothing can match, contradictions. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from agents.tables.directory import Directory
from agents.text.matching import fold_han, has_cjk
from schemas.config import Asset, Entity, Outlet, Platform, Tables

AUTHORITIES = frozenset({"regulator", "central_bank", "court", "government"})
_FIELDS = {
    "entities.json": Entity.__struct_fields__,
    "entities_demo.json": Entity.__struct_fields__,
    "assets.json": Asset.__struct_fields__,
    "outlets.json": Outlet.__struct_fields__,
    "outlets_demo.json": Outlet.__struct_fields__,
    "platforms.json": Platform.__struct_fields__,
}
"""File of rows → the fields of a row. Every other file is one object of word lists."""
KINDS = AUTHORITIES | {"exchange", "issuer", "protocol", "network", "wallet", "payment", "company", "data"}

LEAVE = "leave it with the one whose it is"
NO_DOMAIN = "write it in lower case, without https:// and path"


class Fault(msgspec.Struct, frozen=True, order=True):
    """One fault: the file, the row by its name (or its first field), what is wrong, and what to do."""

    file: str
    row: str
    what: str
    do: str


def faults_of(tables: Tables) -> tuple[Fault, ...]:
    """Return every fault of a set of tables, sorted by file and row."""
    look = Directory(tables)
    faults = [
        *_entities(tables, look, synthetic=False),
        *_entities(tables, look, synthetic=True),
        *_assets(tables, look),
        *_outlets(tables),
        *_hosts(tables),
        *_words(tables),
    ]
    return tuple(sorted(set(faults)))


def file_faults(files: Mapping[str, bytes]) -> tuple[Fault, ...]:
    """Return the faults that reading the files (name → content) would hide: duplicate keys, unknown fields."""
    faults: list[Fault] = []
    for file, content in files.items():
        rows = json.loads(content, object_pairs_hook=lambda pairs: pairs)
        known = _FIELDS.get(file)
        for row in [rows] if known is None else rows:
            keys = [key for key, _ in row]
            name = str(row[0][1]) if known else ""
            twice = sorted({k for k in keys if keys.count(k) > 1})
            faults += [Fault(file, name or k, f"{k!r} is there twice", "put both into one") for k in twice]
            unknown = sorted(set(keys) - set(known or keys))
            what = f"write one of {', '.join(known or ())}"
            faults += [Fault(file, name, f"there is no field {k!r}", what) for k in unknown]
    return tuple(sorted(faults))


def _entities(tables: Tables, look: Directory, *, synthetic: bool) -> Iterator[Fault]:
    file = "entities_demo.json" if synthetic else "entities.json"
    rows = [e for e in tables.entities if e.synthetic is synthetic]
    yield from _twice(file, "name", ((e.name, (e.name, *e.aliases)) for e in rows))
    yield from _twice(file, "account", ((e.name, e.accounts) for e in rows))
    yield from _twice(file, "CIK", ((e.name, [str(c) for c in e.ciks]) for e in rows))
    yield from _twice(file, "ccxt id", ((e.name, e.ccxt) for e in rows))
    public = {e.name for e in rows if e.kind in AUTHORITIES}
    private = [(e.name, e.domains) for e in rows if e.name not in public]
    yield from _twice(file, "domain", private)
    taken = {d: name for name, domains in private for d in domains}
    for entity in rows:
        for domain in entity.domains if entity.name in public else ():
            if domain in taken:
                yield Fault(file, entity.name, f"{domain} is also {taken[domain]}'s", LEAVE)
        yield from _entity(file, entity, look)


def _entity(file: str, entity: Entity, look: Directory) -> Iterator[Fault]:
    def fault(what: str, do: str) -> Fault:
        return Fault(file, entity.name, what, do)

    if entity.kind not in KINDS:
        yield fault(f"there is no kind {entity.kind!r}", f"write one of {', '.join(sorted(KINDS))}")
    if not entity.domains and not entity.accounts:
        yield fault("it has neither domain nor account, so it can never speak", "add one, or delete the row")
    for domain in entity.domains:
        if not _is_domain(domain):
            yield fault(f"{domain!r} is no domain", NO_DOMAIN)
    for account in entity.accounts:
        if (read := look.account_of(account)) != account:
            yield fault(
                f"no address gives the account {account!r}",
                f"write {read!r}" if read else "write platform/handle, of a platform in platforms.json",
            )
    if entity.kind in AUTHORITIES and not entity.synthetic and not any(has_cjk(a) for a in entity.aliases):
        yield fault("an authority without a Chinese name", "add the name that Chinese media use to its aliases")
    for asset in entity.assets:
        if asset != asset.upper():
            yield fault(f"the ticker {asset!r} has small letters", f"write {asset.upper()!r}")


def _is_domain(text: str) -> bool:
    return text == text.lower().strip() and "/" not in text and "." in text


def _assets(tables: Tables, look: Directory) -> Iterator[Fault]:
    file = "assets.json"
    yield from _twice(file, "ticker", ((a.ticker, [a.ticker]) for a in tables.assets))
    yield from _twice(file, "name", ((a.ticker, (a.name, a.zh, *a.aliases)) for a in tables.assets))
    tickers = {a.ticker for a in tables.assets}
    names = {e.name for e in tables.entities}
    for asset in tables.assets:

        def fault(what: str, do: str, row: str = asset.ticker) -> Fault:
            return Fault(file, row, what, do)

        if asset.ticker not in {a.ticker for a in look.assets_in(f"${asset.ticker}")}:
            yield fault("no text could ever match the ticker", "write Latin capitals and digits, at most 12")
        if not asset.name:
            yield fault("it has no name", "add its name, or delete the row: assets_ranked.json has no such ticker")
        if asset.zh and not has_cjk(asset.zh):
            yield fault(f"the Chinese name {asset.zh!r} is not Chinese", "move it to the aliases")
        for name in asset.names:
            if len(name) < 2:
                yield fault(f"no text could ever match the name {name!r}", "delete it")
            if name.upper() in tickers - {asset.ticker}:
                yield fault(f"the name {name!r} is another asset's ticker", "write a longer name")
        if asset.issuer and asset.issuer not in names:
            yield fault(f"the issuer {asset.issuer!r} is no entity", "add it to entities.json, or correct the name")
        if asset.issuer in {e.name for e in tables.entities if asset.ticker in e.assets and not e.synthetic}:
            yield fault(f"{asset.issuer} lists it among its assets already", "delete the issuer here")
    for word in tables.lexicon.get("ambiguous_tickers", ()):
        if word not in tickers:
            yield Fault("lexicon.json", "ambiguous_tickers", f"{word!r} is no asset's ticker", "delete it")


def _outlets(tables: Tables) -> Iterator[Fault]:
    file = "outlets.json"
    yield from _twice(file, "name", ((o.name, (o.name, *o.aliases)) for o in tables.outlets))
    yield from _twice(file, "domain", ((o.name, [o.domain]) for o in tables.outlets))
    rated = {host for hosts in tables.credibility.values() for host in hosts}
    for outlet in tables.outlets:
        if not _is_domain(outlet.domain):
            yield Fault(file, outlet.name, f"{outlet.domain!r} is no domain", NO_DOMAIN)
        if outlet.wire and outlet.domain in rated:
            yield Fault(
                "credibility.json",
                outlet.domain,
                "a press wire has a credibility, and passes on what it is paid for",
                "delete it there: what is not listed is unknown",
            )


def _hosts(tables: Tables) -> Iterator[Fault]:
    yield from _twice("platforms.json", "host", ((p.domain, (p.domain, *p.hosts)) for p in tables.platforms))
    yield from _twice("credibility.json", "host", tables.credibility.items())
    for level, hosts in tables.credibility.items():
        for host in hosts:
            if host != host.lower():
                yield Fault("credibility.json", level, f"no host is {host!r}", f"write {host.lower()!r}")


def _words(tables: Tables) -> Iterator[Fault]:
    names = {e.name for e in tables.entities}
    for file, lists in (("lexicon.json", tables.lexicon), ("event_terms.json", tables.event_terms)):
        for key in (key for key, words in lists.items() if not words):
            yield Fault(file, key, "an empty list", "add words, or delete it")
    for key in tables.lexicon:
        if key.startswith("authority/") and key.split("/", 1)[1] not in names:
            yield Fault("lexicon.json", key, "no entity has this name", "write a name of entities.json")


def _twice(file: str, what: str, rows: Iterable[tuple[str, Iterable[str]]]) -> Iterator[Fault]:
    # A word that two rows claim, or one row twice. Case and Han variants make no difference.
    claimed: dict[str, int] = {}
    named: list[str] = []
    for number, (row, words) in enumerate(rows):
        named.append(row)
        for word in filter(None, words):
            key = fold_han(word).casefold()
            if key not in claimed:
                claimed[key] = number
                continue
            same, other = claimed[key] == number, named[claimed[key]]
            fault = f"the {what} {word!r} is " + ("there twice" if same else f"also {other}'s")
            yield Fault(file, row, fault, "delete one" if same or row == other else LEAVE)
