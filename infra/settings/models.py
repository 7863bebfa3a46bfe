"""Settings of language models, and of the embeddings that memory uses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from infra.origin import KEY_OF_GATEWAY
from infra.settings.endpoints import LLAMACPP_URL, OLLAMA_URL, OPENAI_URL, Endpoint, gateways, key_name


class ModelSettings(BaseSettings):
    """Models, fallbacks, keys, timeouts and embeddings."""

    # Models
    gemini_api_key: SecretStr | None = Field(None, description="Gemini API key")
    gemini_base_url: str | None = Field(
        None, description="Alternative address of the Gemini API, such as a gateway. Unset: Google's"
    )
    openai_api_key: SecretStr | None = Field(None, description="API key of OpenAI, or of OPENAI_BASE_URL")
    openai_base_url: str | None = Field(
        None, description="Any OpenAI-compatible endpoint, including its version (https://host/v1). Unset: OpenAI's"
    )
    openai_gateways: str = Field(
        "",
        description="More OpenAI-compatible endpoints as comma-separated NAME=URL pairs, such as tuzi=https://host/v1. "
        "MODEL_* settings then name models as tuzi:MODEL. Names consist of lower-case letters, digits, - and "
        "_",
    )
    openai_key: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="API key of a gateway, one setting each: OPENAI_KEY_TUZI is the key of tuzi (write - as _). Optional "
        "for a loopback or private address, where models cost nothing",
    )
    ollama_base_url: str = Field(OLLAMA_URL, description="Address of Ollama, for ollama:… models. No key, no cost")
    llamacpp_base_url: str = Field(
        LLAMACPP_URL, description="Address of llama-server, for llamacpp:… models. No key, no cost"
    )
    model_light: str = Field(
        "gemini-2.5-flash-lite",
        description="Light model as provider:model; without a provider, Gemini. With the default, triage of 400 news "
        "items a day costs about 4 USD a month. For keys without access to it, gemini-3.5-flash-lite costs "
        "about 17 USD",
    )
    model_heavy: str = Field(
        "gemini-3.8-flash",
        description="Heavy model as provider:model; without a provider, Gemini. The default costs 0.75 USD per million "
        "input tokens and 3.75 USD per million output tokens, twice that from 2027-01-01",
    )
    model_light_fallback: str = Field(
        "",
        description="Fallback models as provider:model, separated by |. Called in this order while MODEL_LIGHT is "
        "unavailable",
    )
    model_heavy_fallback: str = Field("", description="Fallback models for MODEL_HEAVY, in the same form")
    model_tasks: str = Field(
        "", description="Models for single tasks, such as triage or critique: task=provider:model|provider:model,…"
    )
    model_options: str = Field(
        "",
        description="Options for single tasks, instead of those in the task's prompt: "
        "task=temperature:0.2|max_output_tokens:3000|thinking:low,… Each case keeps the options that it "
        "started with",
    )
    model_timeout_seconds: float = Field(30.0, gt=0, description="Timeout of one model call, in seconds")
    local_model_timeout_seconds: float = Field(
        180.0,
        gt=0,
        description="Timeout of one model call, in seconds, for OpenAI-compatible models at a loopback or private address",
    )
    embedding_provider: Literal["offline", "gemini", "openai"] = Field(
        "offline",
        description="Provider of the vectors for memory search in live mode. offline: a free hashing vector, as in all "
        "other modes; with gemini or openai each recall is a paid call, and only cases that ended under the same "
        "provider, model and dimensions are found",
    )
    embedding_model: str = Field(
        "", description="Embedding model. Empty: gemini-embedding-2, or text-embedding-3-small for openai"
    )
    embedding_dimensions: int = Field(256, ge=64, le=4096, description="Numbers per vector. Recall time grows with it")
    embedding_base_url: str | None = Field(
        None, description="Address of the embedding API. Unset: the provider's GEMINI_BASE_URL or OPENAI_BASE_URL"
    )
    embedding_api_key: SecretStr | None = Field(
        None, description="Key of the embedding API. Unset: the provider's GEMINI_API_KEY or OPENAI_API_KEY"
    )
    embedding_timeout_seconds: float = Field(
        2.0, gt=0, description="Timeout of one embedding call, in seconds. After it, the case continues without memory"
    )

    @field_validator("openai_gateways")
    @classmethod
    def _of_gateways(cls, written: str) -> str:
        gateways(written)
        return written

    def endpoints(self) -> dict[str, Endpoint]:
        """Return the OpenAI-compatible endpoints by provider name."""
        endpoints = [
            Endpoint(
                provider="openai",
                url=self.openai_base_url or OPENAI_URL,
                address_setting="OPENAI_BASE_URL",
                key_setting="OPENAI_API_KEY",
                key=self.openai_api_key,
            ),
            Endpoint(provider="ollama", url=self.ollama_base_url, address_setting="OLLAMA_BASE_URL"),
            Endpoint(provider="llamacpp", url=self.llamacpp_base_url, address_setting="LLAMACPP_BASE_URL"),
        ]
        for name, url in gateways(self.openai_gateways).items():
            endpoints.append(
                Endpoint(
                    provider=name,
                    url=url,
                    address_setting="OPENAI_GATEWAYS",
                    key_setting=f"{KEY_OF_GATEWAY}{key_name(name)}".upper(),
                    key=self.openai_key.get(key_name(name)),
                )
            )
        return {endpoint.provider: endpoint for endpoint in endpoints}
