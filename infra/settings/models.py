"""Settings of language models, and of the embeddings that memory uses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from infra.origin import KEY_OF_GATEWAY
from infra.settings.endpoints import (
    LLAMACPP_URL,
    OLLAMA_URL,
    OPENAI_URL,
    Endpoint,
    gateways,
    key_name,
)


class ModelSettings(BaseSettings):
    """Models, fallbacks, keys, timeouts and embeddings."""

    # Models
    gemini_api_key: SecretStr | None = Field(None)
    gemini_base_url: str | None = Field(None, description="Another address of the Gemini API, such as a gateway")
    openai_api_key: SecretStr | None = Field(None)
    openai_base_url: str | None = Field(
        None,
        description="Any OpenAI-compatible endpoint, up to and with its version (https://host/v1); unset: OpenAI's",
    )
    openai_gateways: str = Field(
        "",
        description="More OpenAI-compatible endpoints, each with a name: tuzi=https://host/v1,openrouter=https://…; MODEL_* then "
        "name tuzi:… models. Names of lower-case letters, digits, - and _",
    )
    openai_key: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="One setting per gateway: OPENAI_KEY_TUZI is the key of tuzi (- is written _). Optional at a loopback or "
        "private address, where models then cost nothing",
    )
    ollama_base_url: str = Field(OLLAMA_URL, description="Where ollama:… models answer; no key, no price")
    llamacpp_base_url: str = Field(
        LLAMACPP_URL, description="Where llama-server answers for llamacpp:… models; no key, no price"
    )
    model_light: str = Field(
        "gemini-2.5-flash-lite",
        description="provider:model; without a provider Gemini's. Triage of 400 news a day costs about 4 USD a month with this "
        "one, about 17 with gemini-3.5-flash-lite, for keys to which this one is not open",
    )
    model_heavy: str = Field(
        "gemini-3.8-flash",
        description="provider:model; without a provider Gemini's. This one costs 0.75 USD per million tokens of input and 3.75 "
        "of output, from 2027-01-01 twice that",
    )
    model_light_fallback: str = Field(
        "", description="provider:model, several with | between: asked in this order while MODEL_LIGHT does not answer"
    )
    model_heavy_fallback: str = Field("", description="The same for MODEL_HEAVY")
    model_tasks: str = Field(
        "", description="task=provider:model|provider:model,…: models of single tasks, such as triage or critique"
    )
    model_options: str = Field(
        "",
        description="task=temperature:0.2|max_output_tokens:3000|thinking:low,…: in place of what the task's prompt says; cases pin it",
    )
    model_timeout_seconds: float = Field(30.0, gt=0)
    local_model_timeout_seconds: float = Field(
        180.0,
        gt=0,
        description="In place of MODEL_TIMEOUT_SECONDS for OpenAI-compatible models at a loopback or private address",
    )
    embedding_provider: Literal["offline", "gemini", "openai"] = Field(
        "offline",
        description="Who makes the vectors that memory is searched by in live mode. offline: a hashing vector, free, as in "
        "every other mode; else each recall pays for one. After a change: newsproof memory rebuild",
    )
    embedding_model: str = Field(
        "", description="Empty: gemini-embedding-2, or text-embedding-3-small at an OpenAI-compatible endpoint"
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

    @field_validator("openai_gateways")
    @classmethod
    def _of_gateways(cls, written: str) -> str:
        gateways(written)
        return written

    def endpoints(self) -> dict[str, Endpoint]:
        """Return the OpenAI-compatible endpoints by provider name."""
        found = [
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
            found.append(
                Endpoint(
                    provider=name,
                    url=url,
                    address_setting="OPENAI_GATEWAYS",
                    key_setting=f"{KEY_OF_GATEWAY}{key_name(name)}".upper(),
                    key=self.openai_key.get(key_name(name)),
                )
            )
        return {one.provider: one for one in found}
