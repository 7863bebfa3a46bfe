"""Check of the search ``feeds`` for ``newsproof doctor``: whether it has anything to search, read from the log as a worker reads it."""

from __future__ import annotations

from infra.client_settings import ClientSettings
from infra.search import FEEDS, provider_names
from infra.settings import Settings
from newsproof.app.composition import feed_search
from newsproof.cli.doctor.check import Check
from newsproof.sdk.client import running_kafka_of
from schemas.errors import NewsproofError
from streams.intake.feed_search import FeedSearch

_LISTEN = "newsproof up --listen"


async def feeds(settings: Settings) -> list[Check]:
    """Return how many items a search would look through now; no check where live mode does not ask ``feeds``."""
    if settings.mode != "live" or not settings.tool_search_enabled or FEEDS not in provider_names(settings):
        return []
    name = "items of feeds"
    search: FeedSearch | None = None
    try:
        address = await running_kafka_of(ClientSettings.of(settings))
        if address is None:
            return [Check(name=name, state="note", found="unknown: Kafka is not running", do=_LISTEN)]
        search = feed_search(settings, lambda: address)
        held = await search.read_to_the_ends()
    except NewsproofError as exc:
        return [Check(name=name, state="note", found=str(exc), do="correct that, then run newsproof doctor again")]
    finally:
        if search is not None:
            await search.close()
    if not held:
        found = "no items from listed sources in the last 7 days, so this search fails"
        return [Check(name=name, state="note", found=found, do=_LISTEN)]
    return [Check(name=name, state="ok", found=f"{held:,} from the last 7 days")]
