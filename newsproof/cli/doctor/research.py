"""Checks of the research chat's data sources for ``newsproof doctor``: whether each answers, and what a key would add.

A check sends one HEAD request to the source's address: no data, no key, no charge. A source that does not answer is
only a note, because the chat continues without it and names it in its answers.
"""

from __future__ import annotations

import asyncio

from infra.market.ports import live_research
from infra.market.source import Source
from infra.settings import Settings
from newsproof.cli.doctor.check import Check
from schemas.errors import ConfigError, NewsproofError

WITHIN_S = 5.0
_REFUSES_THE_PLACE = 451


async def chat_sources(settings: Settings) -> list[Check]:
    """Return one check per source of live mode; in other modes the one check that names what replaces them."""
    if settings.mode != "live":
        found = f"synthetic data, labelled {settings.mode}: no outside source is called"
        return [Check(name="chat data", state="note", found=found, do="live mode uses real data; no key is needed")]
    try:
        ports = live_research(settings).values()
    except ConfigError as exc:
        return [Check(name="chat data", state="missing", found="an address or a key is invalid", do=str(exc))]
    sources = {source.offered.name: source for port in ports for source in port.sources}
    checks = await asyncio.gather(*map(_check, sources.values()))
    for port in ports:
        await port.close()
    if settings.coinmetrics_enabled:
        return checks
    name, do = "chat data (Coin Metrics, exchange flows)", "set COINMETRICS_ENABLED=true (non-commercial use)"
    return [*checks, Check(name=name, state="note", found="turned off", do=do)]


async def _check(source: Source) -> Check:
    service = source.offered
    name = f"chat data ({service.name}, {service.about})"
    key = (
        "" if not service.key_setting else ", no key needed" if source.key is None else ", key is set (not tested here)"
    )
    try:
        status = await source.probe(WITHIN_S)
    except NewsproofError as exc:
        do = f"check the network, or correct {service.address_setting}; the chat continues without it and says so"
        return Check(name=name, state="note", found=f"{str(exc).partition(';')[0]}{key}", do=do)
    if status >= 500 or status == _REFUSES_THE_PLACE:
        why = "it does not serve this network" if status == _REFUSES_THE_PLACE else "it is down"
        return Check(
            name=name, state="note", found=f"returns status {status}{key}", do=f"nothing: {why}, and the chat says so"
        )
    optional = bool(service.key_setting) and source.key is None
    do = f"optional: {service.key_setting}, for {service.key_adds}" if optional else ""
    return Check(name=name, state="ok", found=f"reachable{key}", do=do)
