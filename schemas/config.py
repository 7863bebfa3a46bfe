"""The configuration snapshot that a case pins: everything that its steps decide by, content-addressed.

A case that was decided under one snapshot can be decided again under the same one, years later. Secrets, addresses and
anything that changes only *how* an effect is performed stay in the settings and never come here.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schemas.calls import ProviderMode
from schemas.effects import Tier
from schemas.ids import content_hash


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one prompt. ``schema`` is the JSON Schema of the reply, None for free text or function calls."""

    name: str
    version: str
    tier: Tier
    text: str
    hash: str
    temperature: float = 0.0
    max_output_tokens: int = 1024
    schema: dict[str, Any] | None = None


class Entity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the table of official sources. ``domains`` are registrable domains; ``synthetic`` marks demo entries."""

    name: str
    kind: str
    domains: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    synthetic: bool = False


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """Tables that a person edits and steps decide by."""

    entities: tuple[Entity, ...] = ()
    event_terms: dict[str, tuple[str, ...]] = {}
    credibility: dict[str, tuple[str, ...]] = {}
    lexicon: dict[str, tuple[str, ...]] = {}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The pinned configuration. Defaults are the numbers of VERIFICATION; names equal the settings in lower case."""

    provider_mode: ProviderMode = "offline"
    code_version: str = "0"
    high_value_confidence_threshold: float = 0.75
    phase1_rollout_percentage: float = 0.05
    deep_analysis_tools_enabled: bool = False
    tool_search_enabled: bool = True
    tool_scrape_enabled: bool = False
    tool_expand_enabled: bool = True
    tool_price_enabled: bool = False
    tool_macro_enabled: bool = False
    tool_onchain_enabled: bool = False
    deep_analysis_max_tool_calls: int = 3
    max_steps: int = 10
    search_providers: tuple[str, ...] = ("offline",)
    search_depth: str = "basic"
    search_max_results: int = 5
    search_multi_source_threshold: int = 3
    search_include_domains: tuple[str, ...] = ()
    quality_min_relevance: float = 0.6
    quality_keep: int = 10
    memory_limit: int = 5
    case_deadline_seconds: float = 300.0
    step_max_attempts: int = 3
    retry_base_seconds: float = 1.0
    synthesis_choice: Literal["middle", "model"] = "middle"
    prompts: dict[str, Prompt] = {}
    tables: Tables = Tables()

    @property
    def config_hash(self) -> str:
        """32 hex digits; the key of this snapshot on the ``configs`` topic."""
        return content_hash(self)
