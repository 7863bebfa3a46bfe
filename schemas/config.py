"""The configuration snapshot that a case pins: everything that its steps decide by, content-addressed.

A case that was decided under one snapshot can be replayed under the same one, years later. Secrets, addresses and
anything that changes only *how* an effect is performed stay in the settings and never come here.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal

import msgspec

from schemas.calibration import CalibrationMap
from schemas.calls import ProviderMode
from schemas.effects import Thinking, Tier
from schemas.errors import ContractError
from schemas.ids import content_hash

RULES = 3
"""Version of the rules of judgement in this code. It increases with every change of what a verdict means."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one prompt. ``schema`` is the JSON Schema of the reply, None for free text or function calls."""

    name: str
    version: str
    tier: Tier
    text: str
    hash: str
    temperature: float = 0.0
    max_output_tokens: int = 1024
    thinking: Thinking = "off"
    schema: dict[str, Any] | None = None


class Entity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the table of official sources. ``domains`` are registrable domains; ``synthetic`` marks demo entries.

    ``accounts`` are written ``platform/handle`` in lower case, as :class:`agents.tables.directory.Directory` reads them
    from an address (``x.com/binance``, ``github.com/bitcoin``); ``ciks`` are its numbers as a registrant on EDGAR;
    ``ccxt`` are the ids of its venues in that library.
    """

    name: str
    kind: str
    domains: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    ciks: tuple[int, ...] = ()
    ccxt: tuple[str, ...] = ()
    synthetic: bool = False


class Asset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One coin or token. ``issuer`` names the entity behind it if that entity's own ``assets`` do not list it.

    ``chains`` are ids of the source that the row was taken from; ``rank`` is by market value on its day, 0 = not ranked.
    """

    ticker: str
    name: str = ""
    zh: str = ""
    aliases: tuple[str, ...] = ()
    issuer: str = ""
    chains: tuple[str, ...] = ()
    rank: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, without the ticker: the English one, the Chinese one, then the others."""
        return tuple(dict.fromkeys(n for n in (self.name, self.zh, *self.aliases) if n))


class Outlet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A medium as texts cite it → its registrable domain. A ``wire`` passes on what its customers pay it to.

    ``accounts``: its own on platforms, written as those of an :class:`Entity`.
    """

    name: str
    domain: str
    aliases: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    wire: bool = False


class Platform(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host where everybody can publish, so the account is the speaker and not the host.

    The account is the label left of the domain (``x.substack.com``) where ``by_host``; else the first segment of the
    path, after the words of ``skip``, unless it is one of ``never``; or the value of the query parameter ``query``.
    ``hosts`` are other names of the same platform. Below a path word in ``open``, such as GitHub's issues, anybody can write,
    whoever owns the account.
    """

    domain: str
    hosts: tuple[str, ...] = ()
    by_host: bool = False
    skip: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    query: str = ""


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """The tables that people edit and steps decide by."""

    entities: tuple[Entity, ...] = ()
    assets: tuple[Asset, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    platforms: tuple[Platform, ...] = ()
    event_terms: dict[str, tuple[str, ...]] = {}
    credibility: dict[str, tuple[str, ...]] = {}
    lexicon: dict[str, tuple[str, ...]] = {}
    search_roles: dict[str, tuple[str, ...]] = {}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The pinned configuration. Names equal the settings in lower case; docs/verification.md explains the numbers.

    ``rules``: version of the rules that first decided its cases (:data:`RULES`); 1 in snapshots from before this field.
    ``search_by_topic``: providers that are called separately for news, for official pages and for the rest.
    ``search_retries``: number of retries of a search that timed out; None: by ``step_max_attempts``.
    ``trusted_sources``: sources whose news is forced without the listener's mark; None (in snapshots from before this field):
    all. ``search_requests_per_message``: maximum billed requests of a case, 0: no maximum; ``search_billed``: the providers
    that bill them.
    ``quality_floors``: provider → the minimum score of a page, as a share of the best score in its reply;
    ``quality_min_relevance`` is the minimum score for the other providers. ``quality_widths``: provider → minimum width of a
    content in columns, else 50. ``second_looks_after_seconds``: seconds after the first decision at which an unconfirmed case
    gets a second look; empty: never. ``claims_per_message``: maximum claims about different assets that one message opens a
    case for; 1 in snapshots from before this field. ``calibration``: the map of its signals, None without one; UNSET in
    snapshots from before this field, whose signals keep their bytes.
    """

    provider_mode: ProviderMode = "offline"
    code_version: str = "0"
    rules: int = 1
    high_value_confidence_threshold: float = 0.75
    phase1_rollout_percentage: float = 0.05
    deep_analysis_tools_enabled: bool = False
    tool_search_enabled: bool = True
    search_away_single_pass: bool = False
    tool_scrape_enabled: bool = False
    tool_expand_enabled: bool = True
    tool_price_enabled: bool = False
    tool_macro_enabled: bool = False
    tool_onchain_enabled: bool = False
    tool_memory_enabled: bool = True
    tool_platform_search_enabled: bool = False
    tool_competitor_enabled: bool = False
    deep_analysis_max_tool_calls: int = 3
    max_steps: int = 10
    search_providers: tuple[str, ...] = ("offline",)
    search_by_topic: tuple[str, ...] = ()
    search_billed: tuple[str, ...] = ()
    search_requests_per_message: int = 0
    search_retries: int | None = None
    search_depth: str = "basic"
    search_max_results: int = 5
    search_multi_source_threshold: int = 3
    search_include_domains: tuple[str, ...] = ()
    quality_min_relevance: float = 0.6
    quality_keep: int = 10
    quality_floors: dict[str, float] = {}
    quality_widths: dict[str, int] = {}
    quality_same_text: float = 0.55
    gate_doubtful: bool = True
    trusted_sources: tuple[str, ...] | None = None
    memory_limit: int = 5
    memory_min_confidence: float = 0.0
    case_deadline_seconds: float = 300.0
    step_max_attempts: int = 3
    retry_base_seconds: float = 1.0
    synthesis_choice: Literal["middle", "model"] = "middle"
    publish_preliminary: bool = False
    retraction_window_days: int = 14
    story_window_hours: float = 0.0
    second_looks_after_seconds: tuple[float, ...] = ()
    claims_per_message: int = 1
    prompts: dict[str, Prompt] = {}
    tables: Tables = Tables()
    calibration: CalibrationMap | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def config_hash(self) -> str:
        """32 hex digits; the key of this snapshot on the ``configs`` topic."""
        return content_hash(self)

    @property
    def sell_from(self) -> float | None:
        """The selling rule of its map: orders of less confidence are removed. None: no rule."""
        return self.calibration.sell_from if isinstance(self.calibration, CalibrationMap) else None


_decode_snapshot = msgspec.json.Decoder(Snapshot).decode
LONGEST_DEADLINE_S = 30 * 24 * 3600.0
"""Longest time that a case may stay open and hold its partition's watermark."""


def decode_snapshot(key: bytes | None, value: bytes | None) -> tuple[str, Snapshot]:
    """Return (hash, snapshot) of a record of ``configs``. The key must be the hash of the value.

    The hash is taken of the JSON as written, since older and newer code has fewer or more fields.

    Raises:
        ContractError: the value is no snapshot, or does not match its key (reason ``bad_snapshot``).
    """
    try:
        config_hash = (key or b"").decode("ascii")
        snapshot = _decode_snapshot(value or b"")
        if content_hash(msgspec.json.decode(value or b"")) != config_hash:
            raise ContractError(
                f"the snapshot under {config_hash[:40]!r} has another hash: it is not used", reason="bad_snapshot"
            )
    except (ValueError, RecursionError) as exc:
        raise ContractError(f"not a configuration snapshot: {exc!s:.300}", reason="bad_snapshot") from exc
    numbers = (snapshot.retry_base_seconds, snapshot.case_deadline_seconds, snapshot.phase1_rollout_percentage)
    if not all(isfinite(n) and n >= 0 for n in numbers) or snapshot.case_deadline_seconds > LONGEST_DEADLINE_S:
        raise ContractError("the snapshot's times are out of range: it is not used", reason="bad_snapshot")
    return config_hash, snapshot
