"""The names of all settings, in lower case, for commands that need few settings.

:mod:`infra.settings` takes longer to import than such a command works. A test compares the two modules.
"""

from __future__ import annotations

SECRETS = frozenset(
    [
        "bocha_api_key", "bot_secret", "clickhouse_analyst_password", "coingecko_api_key", "coinmetrics_api_key",
        "cryptopanic_api_key", "embedding_api_key", "fred_api_key", "gemini_api_key", "kafka_sasl_password",
        "kafka_ssl_key_password", "listener_webhook_secret", "openai_api_key", "openai_key", "phoenix_api_key",
        "ragflow_api_key", "tavily_api_key", "treeofalpha_api_key",
    ]
)  # fmt: skip
"""Secrets for which any text is valid."""
TEXTS = frozenset(
    [
        "arxiv_base_url", "binance_base_url", "blockchain_info_base_url", "bocha_base_url", "bots_file",
        "bots_page_url", "clickhouse_url", "coinbase_base_url", "coingecko_base_url", "coinmetrics_base_url",
        "deep_analysis_search_provider", "defillama_base_url", "defillama_stablecoins_base_url", "embedding_base_url",
        "embedding_model", "fear_greed_base_url", "fred_api_base_url", "fred_base_url", "gdelt_base_url",
        "gemini_base_url", "hot_settings_file", "kafka_bootstrap_servers", "kafka_embedded_password_file",
        "kafka_sasl_username", "kafka_ssl_ca_file", "kafka_ssl_cert_file", "kafka_ssl_key_file", "listener_sources",
        "listener_webhook_host", "llamacpp_base_url", "metrics_host", "model_heavy", "model_heavy_fallback",
        "model_light", "model_light_fallback", "model_options", "model_tasks", "newsproof_data_dir", "ollama_base_url",
        "openai_base_url", "outcome_horizons", "quality_floor", "quality_min_width", "ragflow_dataset_id",
        "ragflow_endpoint", "scrape_proxies", "scripted_model_url", "search_include_domains", "search_roles",
        "searxng_url", "tavily_base_url", "trusted_sources", "web_host", "web_tls_cert_file", "web_tls_key_file",
    ]
)  # fmt: skip
"""Other settings for which any text is valid."""
CHECKED = frozenset(
    [
        "allow_unpriced", "arxiv_focus_recent", "bocha_cost_usd", "bocha_enabled", "bots_private_addresses",
        "calibration_max_false_share",
        "case_deadline_seconds", "claims_per_message", "clickhouse_analyst_max_memory_mb",
        "clickhouse_analyst_max_rows", "clickhouse_analyst_max_seconds", "clickhouse_analyst_user",
        "clickhouse_cluster", "clickhouse_database", "clickhouse_port", "coinmetrics_enabled", "crash_suspect_after",
        "dedup_days", "deep_analysis_daily_max_percent", "deep_analysis_max_tool_calls",
        "deep_analysis_monthly_budget", "deep_analysis_tool_daily_limit", "deep_analysis_tool_timeout",
        "deep_analysis_tools_enabled", "effects_in_flight", "embedding_dimensions", "embedding_provider",
        "embedding_timeout_seconds", "full_pipeline", "gate_doubtful", "gdelt_interval_seconds",
        "gdelt_timeout_seconds", "high_value_confidence_threshold", "investigation_deadline_seconds",
        "investigation_max_percent", "investigation_max_rounds", "investigation_max_searches", "kafka_sasl_mechanism",
        "kafka_security_protocol", "listen", "listener_contact", "listener_key", "listener_max_age_seconds",
        "listener_max_new", "listener_webhook_port", "local_model_timeout_seconds", "log_level", "max_open_cases",
        "memory_min_confidence", "metrics_port", "model_timeout_seconds", "newsproof_min_free_mb", "newsproof_mode",
        "newsproof_topic_prefix", "offline_latency_seconds", "offline_pages_dated_by_event", "openai_gateways",
        "phase1_rollout_percentage", "profit_cap", "publish_preliminary", "quality_keep", "quality_same_text",
        "research_deadline_seconds", "retraction_window_days", "scrape_max_bytes", "search_away_single_pass",
        "search_cache_ttl_seconds", "search_cost_usd", "search_doubtful_max_percent", "search_forced_reserve_percent",
        "search_max_results", "search_multi_source_threshold", "search_requests_per_message", "search_retries",
        "second_looks_after_seconds", "session_timeout_seconds", "source_group_max_percent", "step_concurrency",
        "story_window_hours", "tavily_search_depth", "tool_competitor_enabled", "tool_expand_enabled",
        "tool_macro_enabled", "tool_memory_enabled", "tool_onchain_enabled", "tool_platform_search_enabled",
        "tool_price_enabled", "tool_scrape_enabled", "tool_search_enabled", "topic_partitions", "topic_replication",
        "triage_reserve_usd", "unlisted_sources_max_percent", "verification_max_percent", "watch_daily_limit", "web_max_streams",
        "web_max_streams_per_address", "web_port", "web_questions_per_minute", "web_requests_per_minute", "web_token",
        "web_trusted_proxy", "worker_slot",
    ]
)  # fmt: skip
"""Settings that accept only certain values: numbers, choices, patterns."""
ALL = SECRETS | TEXTS | CHECKED
REMOVED = {
    "blockchair_api_key": "coinmetrics_api_key",
    "blockchair_base_url": "coinmetrics_base_url",
    "glassnode_api_key": "coinmetrics_api_key",
    "glassnode_base_url": "coinmetrics_base_url",
}
"""Former settings, each with the closest current one. They are reported like misspelt settings."""
