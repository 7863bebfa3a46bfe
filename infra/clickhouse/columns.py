"""Columns of every table that the sink writes, in the order of the mapped tuples; a test compares them with the tables.

Names follow the OpenTelemetry GenAI conventions where they define one (``gen_ai.request.model`` → ``request_model``,
``gen_ai.usage.input_tokens`` → ``usage_input_tokens``). Times are whole milliseconds since 1970 UTC: the client writes
integers into ``DateTime64(3)`` unchanged, ten times faster than ``datetime``.
"""

from __future__ import annotations

FIRST_WINS_TOP = 2**64 - 1
"""``first_wins = FIRST_WINS_TOP - journal offset``: ReplacingMergeTree keeps the largest, so the first record wins."""

EVENTS = (
    "run_id", "case_id", "event_id", "causation_id", "event_type", "schema_version", "event_time", "appended_at",
    "step", "outcome", "step_latency_ms", "calls", "provider_mode", "journal_topic", "journal_partition",
    "journal_offset", "payload", "knowable_at", "live", "first_wins",
)  # fmt: skip
_CALL_KEY = (
    "run_id", "case_id", "event_id", "journal_topic", "journal_partition", "journal_offset", "call_index", "accepted",
    "event_type", "step",
)  # fmt: skip
_CALL_COST = ("cost_usd", "avoided_cost_usd", "cost_source", "latency_ms", "attempt", "cached", "error_type")
_CALL_END = ("execution", "request_hash", "as_of", "started_at", "reply", "first_wins")

LLM_CALLS = (
    *_CALL_KEY, "provider_name", "provider_mode", *_CALL_COST, "request_model", "prompt_name", "prompt_version",
    "prompt_hash", "usage_input_tokens", "usage_cache_read_input_tokens", "usage_output_tokens",
    "usage_reasoning_output_tokens", "repair", "finish_reason", *_CALL_END,
)  # fmt: skip
TOOL_CALLS = (
    *_CALL_KEY, "provider_name", "provider_mode", *_CALL_COST, "tool_name", "query", "result_count", "units",
    *_CALL_END,
)  # fmt: skip
SIGNALS = (
    "run_id", "signal_id", "revision", "supersedes", "stage", "verdict", "unchecked_reason", "case_id", "cause_id",
    "event_type", "asset", "asset_name", "symbol", "venue", "action", "direction", "strength", "timeframe",
    "horizon_s", "preliminary_confidence", "confidence", "confidence_calibrated", "calibration_id",
    "calibrated_low", "calibrated_high", "calibration_stories", "p_true", "confidence_delta", "adjustments",
    "risk_flags", "independent_sources", "supporting_sources", "evidence", "links", "summary", "summary_zh",
    "summary_en", "notes", "reference_price", "prompt_versions", "model", "provider_mode", "news_source", "language",
    "published_at", "knowable_at", "decided_at", "valid_until", "emitted_at", "journal_topic", "journal_partition",
    "journal_offset", "first_wins",
)  # fmt: skip
MEMORY = (
    "run_id", "case_id", "event_id", "signal_id", "verdict", "event_type", "asset", "action", "summary", "confidence",
    "language", "keywords", "decided_at", "embedding_model", "embedding", "journal_topic", "journal_partition",
    "journal_offset", "first_wins",
)  # fmt: skip
NEWS = (
    "run_id", "case_id", "event_id", "source", "external_id", "url", "author", "language", "text", "text_hash",
    "keywords", "published_at", "received_at", "opened_at", "journal_topic", "journal_partition", "journal_offset",
    "first_wins",
)  # fmt: skip
DELIVERIES = (
    "record", "delivery_id", "bot", "adapter", "mode", "instrument", "intent", "side", "signal_id", "revision",
    "asset", "entry_id", "planned_at", "valid_until", "attempt", "outcome", "reason", "remote_id", "price", "fee",
    "seconds", "requested_by", "closes", "appended_at", "journal_topic", "journal_partition", "journal_offset",
)  # fmt: skip
COLUMNS: dict[str, tuple[str, ...]] = {
    "events": EVENTS,
    "news": NEWS,
    "llm_calls": LLM_CALLS,
    "tool_calls": TOOL_CALLS,
    "signals": SIGNALS,
    "memories": MEMORY,
    "deliveries": DELIVERIES,
}
