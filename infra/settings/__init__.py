"""Every setting: one typed object, read from the environment and from a ``.env`` file in the working directory.

What a ``.env`` may not do, for the directory may be a stranger's: name the address that a secret from elsewhere is sent to
(:mod:`infra.settings.origin`).

Names are those of the environment (the design's CAPS). ``newsproof config`` prints each value with its origin;
docs/settings.md is generated from this file and checked by a test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from infra.redaction import remember
from infra.settings.origin import WrittenSource, given_by_environment, refuse_foreign_addresses, written_in
from infra.settings.research import ResearchSettings
from infra.settings.web import WebSettings
from schemas.errors import ConfigError


class Settings(WebSettings, ResearchSettings):
    """The settings of one process. Units are in the names or the descriptions."""

    model_config = SettingsConfigDict(
        env_file=".env", extra="ignore", case_sensitive=False, frozen=True, env_ignore_empty=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read ``.env`` as it is written, without putting the environment into it."""
        file = getattr(dotenv_settings, "env_file", None)
        return init_settings, env_settings, WrittenSource(settings_cls, env_file=file)

    # Where things are
    newsproof_mode: Literal["auto", "live", "offline", "simulated"] = Field(
        "auto",
        description="live: real models and search; offline: rules and a bundled corpus; auto: live when MODEL_LIGHT's provider has its key, GEMINI_API_KEY by default",
    )
    newsproof_data_dir: Path = Field(
        Path(".data"), description="Directory of the embedded servers and the worker slots"
    )
    newsproof_topic_prefix: str = Field(
        "newsproof.", pattern=r"^[A-Za-z0-9._-]*$", description="Prefix of every topic and group"
    )
    kafka_bootstrap_servers: str | None = Field(
        None, description="host:port,…; unset: an embedded Apache Kafka is started"
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = Field(
        "PLAINTEXT", description="SASL without TLS is refused"
    )
    kafka_embedded_password_file: Path | None = Field(
        None,
        description="With KAFKA_BOOTSTRAP_SERVERS at 127.0.0.1: the password file of another command's embedded Kafka, which "
        "then decides alone how to log in; commands set it for the processes that they start",
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(None)
    kafka_sasl_username: str | None = Field(None)
    kafka_sasl_password: SecretStr | None = Field(None)
    kafka_ssl_ca_file: Path | None = Field(
        None, description="PEM certificates that brokers are checked against; unset: those of the operating system"
    )
    kafka_ssl_cert_file: Path | None = Field(
        None, description="PEM certificate of this client, where brokers ask for one"
    )
    kafka_ssl_key_file: Path | None = Field(
        None, description="PEM key of that certificate; unset: it is in the same file"
    )
    kafka_ssl_key_password: SecretStr | None = Field(None, description="Password of an encrypted key file")
    clickhouse_url: str | None = Field(
        None, description="http://user:password@host:8123; unset: the embedded ClickHouse engine is started"
    )
    clickhouse_database: str = Field("newsproof", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    clickhouse_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of 127.0.0.1 that the embedded engine listens on, for BI tools; unset: a free one at each start",
    )
    clickhouse_analyst_user: str = Field(
        "analyst", pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", description="Who reads the database and nothing else"
    )
    clickhouse_analyst_password: SecretStr | None = Field(
        None,
        description="Password of that user; unset: the embedded engine makes one (`newsproof analyst` prints it), and at a "
        "CLICKHOUSE_URL `newsproof sql` reads as the user of that address, with readonly=1",
    )
    clickhouse_analyst_max_seconds: int = Field(60, ge=1, description="Longest query of an analyst")
    clickhouse_analyst_max_memory_mb: int = Field(1024, ge=64, description="Memory (MiB) of one query of an analyst")
    clickhouse_analyst_max_rows: int = Field(1_000_000, ge=1, description="Rows of one answer to an analyst")
    topic_partitions: int = Field(
        4, ge=1, le=512, description="Partitions of news, cases and signals; fixed at creation"
    )
    topic_replication: int = Field(1, ge=1, le=7, description="Replicas of every topic; 3 in production")

    # The worker
    worker_slot: str = Field(
        "0", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Unique and stable per worker; static membership"
    )
    max_open_cases: int = Field(2000, ge=1, description="Intake pauses news above this many open cases of a worker")
    step_concurrency: int = Field(64, ge=1, description="Running effects per step and worker (bulkhead)")
    effects_in_flight: int = Field(256, ge=1, description="Running effects of a worker, all steps together")
    case_deadline_seconds: float = Field(300.0, gt=0, description="Every case has ended by then")
    crash_suspect_after: int = Field(3, ge=1, description="Crashes at one head before its step runs alone")
    dedup_days: int = Field(30, ge=1, description="The same news within this many days opens no second case")
    session_timeout_seconds: float = Field(10.0, gt=1, description="Kafka session timeout of a worker")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO")
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="/metrics, /healthz and /readyz of a worker or the sink; unset: none; 0: a free one, which the log "
        "names. `up` counts on from this port: its workers, then the sink",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="Address that METRICS_PORT is opened on; anything but loopback is open to the network"
    )

    # The gate and its toggles (VERIFICATION)
    high_value_confidence_threshold: float = Field(0.75, ge=0.0, le=1.0)
    phase1_rollout_percentage: float = Field(
        0.05, description="Share of gated cases that take the deep path, 0–1", ge=0.0, le=1.0
    )
    deep_analysis_tools_enabled: bool = Field(False)
    tool_search_enabled: bool = Field(True)
    tool_scrape_enabled: bool = Field(False)
    tool_expand_enabled: bool = Field(True)
    tool_price_enabled: bool = Field(False)
    tool_macro_enabled: bool = Field(False)
    tool_onchain_enabled: bool = Field(False)
    tool_memory_enabled: bool = Field(
        True,
        description="A plan may ask memory again: other words (memory_search), or a subject's past (timeline_query)",
    )
    tool_platform_search_enabled: bool = Field(
        False,
        description="A plan may search WeChat, Zhihu, Xiaohongshu, Douyin, X, Reddit and Telegram; each is a search",
    )
    tool_competitor_enabled: bool = Field(
        False, description="A plan may look up the peers of whom a claim is about; a search, once a case"
    )
    publish_preliminary: bool = Field(
        False,
        description="Publish the first judgement at once, as a revision of its own, for subscribers who ask for it",
    )
    retraction_window_days: int = Field(
        14, ge=1, le=30, description="A denial or correction looks back this far for the signals that it concerns"
    )
    deep_analysis_max_tool_calls: int = Field(3, ge=0, le=10, description="Rounds of planning and searching")
    deep_analysis_tool_timeout: float = Field(10.0, gt=0, description="Seconds for one search or page")
    hot_settings_file: Path | None = Field(
        None,
        description="Search settings and toggles that running workers re-read, as NAME=value lines; they win over all "
        "others; unset: hot.env in the data directory",
    )
    deep_analysis_search_provider: str = Field(
        "tavily",
        description="Comma-separated: ragflow, bocha, tavily, arxiv; one without its key is left out "
        "(offline mode uses the bundled corpus)",
    )

    # Search
    tavily_api_key: SecretStr | None = Field(None)
    tavily_base_url: str = Field("https://api.tavily.com")
    tavily_search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] = Field("basic")
    search_max_results: int = Field(5, ge=1, le=20)
    search_multi_source_threshold: int = Field(3, ge=1, description="Independent sources that make multi_source")
    search_include_domains: str = Field("", description="Comma-separated; empty: the whole web")
    search_cache_ttl_seconds: float = Field(
        600.0, ge=0, description="An equal search within this time is answered from the log, unpaid; 0: never"
    )
    search_cost_usd: float = Field(0.008, ge=0, description="Price of one Tavily credit at the pay-as-you-go rate")
    bocha_enabled: bool = Field(True, description="false: Bocha is not asked although it is listed and has a key")
    bocha_api_key: SecretStr | None = Field(None)
    bocha_base_url: str = Field("https://api.bochaai.com")
    bocha_cost_usd: float = Field(0.005, ge=0, description="Price of one Bocha search at the pay-as-you-go rate")
    ragflow_endpoint: str | None = Field(None, description="Address of the RAGFlow server, such as http://ragflow:9380")
    ragflow_api_key: SecretStr | None = Field(None)
    ragflow_dataset_id: str = Field("", description="Comma-separated ids of the datasets to search")
    arxiv_base_url: str = Field("https://export.arxiv.org", description="One request per 3 s and worker")

    # Pages and market data
    scrape_proxies: str = Field(
        "", description="Comma-separated http(s)://user:password@host:port; tried in turn where a page refuses us"
    )
    scrape_max_bytes: int = Field(4 * 1024 * 1024, ge=65536, description="Largest page that is read, packed or not")
    coinbase_base_url: str = Field("https://api.exchange.coinbase.com")
    binance_base_url: str = Field("https://data-api.binance.vision", description="Asked where Coinbase has no answer")
    fear_greed_base_url: str = Field("https://api.alternative.me")
    fred_base_url: str = Field("https://fred.stlouisfed.org")
    defillama_base_url: str = Field("https://api.llama.fi")
    defillama_stablecoins_base_url: str = Field("https://stablecoins.llama.fi")
    blockchain_info_base_url: str = Field("https://api.blockchain.info")

    # The budget
    deep_analysis_monthly_budget: float = Field(
        30.0,
        ge=0,
        le=1_000_000,
        description="USD that all calls of a UTC month may cost; a day past 1/30 of it is logged",
    )
    triage_reserve_usd: float = Field(
        3.0,
        ge=0,
        le=1_000_000,
        description="USD a month for triage alone, beyond the budget; then news waits in its topic",
    )
    deep_analysis_tool_daily_limit: int = Field(
        50,
        ge=0,
        le=1_000_000,
        description="Metered tool calls (searches) of a UTC day; then cases go on without searching",
    )
    allow_unpriced: bool = Field(False, description="Grant calls whose price is unknown; they count as 0 in the budget")

    # Models
    gemini_api_key: SecretStr | None = Field(None)
    gemini_base_url: str | None = Field(None, description="Another address of the Gemini API, such as a gateway")
    openai_api_key: SecretStr | None = Field(None)
    openai_base_url: str | None = Field(
        None,
        description="Any OpenAI-compatible endpoint, up to and with its version (https://host/v1); unset: OpenAI's",
    )
    model_light: str = Field("gemini-2.5-flash-lite", description="provider:model; without a provider Gemini's")
    model_heavy: str = Field("gemini-2.5-pro", description="provider:model; without a provider Gemini's")
    model_light_fallback: str = Field(
        "", description="provider:model, several with | between: asked in this order while MODEL_LIGHT does not answer"
    )
    model_heavy_fallback: str = Field("", description="The same for MODEL_HEAVY")
    model_tasks: str = Field(
        "", description="task=provider:model|provider:model,…: models of single tasks, such as triage or critique"
    )
    model_options: str = Field(
        "",
        description="task=temperature:0.2|max_output_tokens:3000,…: in place of what the task's prompt says; cases pin it",
    )
    model_timeout_seconds: float = Field(30.0, gt=0)
    embedding_provider: Literal["offline", "gemini", "openai"] = Field(
        "offline",
        description="Who makes the vectors that memory is searched by in live mode. offline: a hashing vector, free, as in "
        "every other mode; else each recall pays for one. After a change: newsproof memory rebuild",
    )
    embedding_model: str = Field(
        "", description="Empty: gemini-embedding-001, or text-embedding-3-small at an OpenAI-compatible endpoint"
    )
    embedding_dimensions: int = Field(
        256, ge=64, le=4096, description="Numbers in a vector; the time of a recall grows with it"
    )
    embedding_base_url: str | None = Field(
        None, description="Another address than the provider's GEMINI_BASE_URL or OPENAI_BASE_URL"
    )
    embedding_api_key: SecretStr | None = Field(
        None, description="Another key than the provider's GEMINI_API_KEY or OPENAI_API_KEY"
    )
    embedding_timeout_seconds: float = Field(2.0, gt=0, description="Then memory is unavailable to the case")

    # Offline and simulated providers
    offline_latency_seconds: float = Field(
        0.0,
        ge=0,
        description="Added to every offline model and search reply; with SCRIPTED_MODEL_URL the median of a search",
    )
    scripted_model_url: str | None = Field(
        None,
        description="Simulated mode asks this scripted model server (`newsproof model-server` prints its address) and the "
        "bundled corpus; unset: simulated answers are empty",
    )

    @property
    def mode(self) -> Literal["live", "offline", "simulated"]:
        """The mode in force: ``auto`` means live exactly when the light model has its key.

        Without it ``auto`` is simulated where a scripted server is named, else offline.
        """
        if self.newsproof_mode == "auto":
            light = self.model_light.partition(":")[0].strip().lower()
            if self.openai_api_key if light == "openai" else self.gemini_api_key:
                return "live"
            return "simulated" if self.scripted_model_url else "offline"
        return self.newsproof_mode

    @property
    def topic_prefix(self) -> str:
        """Prefix of topics and groups."""
        return self.newsproof_topic_prefix


def load_settings(**overrides: object) -> Settings:
    """Read the settings; ``overrides`` win over the environment.

    Raises:
        ConfigError: names every setting that is wrong, and what it accepts; or an address of ``.env`` that a secret from
            elsewhere would be sent to.
    """
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        lines = [f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}{_shown(e)}" for e in exc.errors()]
        raise ConfigError("these settings are wrong, correct them and start again:\n  " + "\n  ".join(lines)) from exc
    remember(settings)
    if (file := overrides.get("_env_file", Settings.model_config.get("env_file"))) is not None:
        elsewhere = given_by_environment() | {name for name, value in overrides.items() if value is not None}
        refuse_foreign_addresses(Path(str(file)), set(written_in(Path(str(file)))) - elsewhere, elsewhere)
    return settings


def _shown(error: Any) -> str:
    # A refused secret is not repeated, nor is an address, which may hold a password.
    name = str(error["loc"][0]).lower() if error["loc"] else ""
    field = Settings.model_fields.get(name)
    if field is None or "SecretStr" in str(field.annotation) or name.endswith("_url"):
        return ""
    return f" (is {error['input']!r})"
