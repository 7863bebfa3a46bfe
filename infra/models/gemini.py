"""Gemini through google-genai: one request for one ``CallModel``, whatever happens.

The library would otherwise send more than one: it retries connection errors over aiohttp, runs functions by itself and
continues long answers. All three are off, so that every attempt is an event of the case and every cost is seen.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pydantic
from google import genai
from google.genai import errors as vendor
from google.genai import types

from infra.http import (
    MAX_RESPONSE_BYTES,
    UselessAnswerError,
    checked_address,
    checked_key,
    guarded_client,
    tls_context,
    transport_failure,
)
from infra.models import untrusted
from infra.models.gemini_failures import translate_status
from infra.models.gemini_reply import read_reply
from infra.models.prices import Prices
from infra.models.prompt_size import most_input_tokens
from infra.ports import Answer
from schemas.calls import ProviderMode
from schemas.effects import CallModel, Untrusted
from schemas.errors import NewsproofError, PermanentError

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com/"


class GeminiModel:
    """A port for ``CallModel``. One model, one connection pool; safe for concurrent calls within one event loop."""

    provider = "gemini"
    mode: ProviderMode = "live"

    def __init__(
        self,
        *,
        api_key: str,
        model: str,
        prices: Prices,
        base_url: str | None = None,
        timeout_s: float = 30.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``timeout_s`` bounds a whole call, body included. ``base_url`` None = Google's own address.

        Raises:
            ConfigError: the key or the address cannot be one.
        """
        address = checked_address(base_url or DEFAULT_BASE_URL, "GEMINI_BASE_URL")
        self.model = model
        self._prices = prices
        self._timeout_s = timeout_s
        self._http = guarded_client(address, timeout_s=timeout_s, max_bytes=max_response_bytes)
        self._client = genai.Client(
            api_key=checked_key(api_key, "GEMINI_API_KEY"),
            # Said aloud, or GOOGLE_GENAI_USE_VERTEXAI in the environment would send the key elsewhere.
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=address,
                timeout=max(1, round(timeout_s * 1000)),
                # An httpx client of our own keeps the library off aiohttp, whose connection errors it retries.
                httpx_async_client=self._http,
                # Else it reads all certificates twice more, for transports that are never used.
                client_args={"verify": tls_context()},
                async_client_args={"ssl": tls_context()},
            ),
        )

    async def perform(self, effect: CallModel) -> Answer:
        """Ask the model once. An answer that cannot be used is a ``Failure`` reply, with what it cost where known.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, invalid_request, too_large (the request), not_configured.
        """
        contents, config = _request(effect)
        asked_at = datetime.now(UTC)
        try:
            response = await self._ask(contents, config)
            return read_reply(response, effect, model=self.model, prices=self._prices, asked_at=asked_at)
        except UselessAnswerError as exc:
            return exc.answer

    def worst_case_usd(self, effect: CallModel) -> Decimal | None:
        """Return the price of the longest prompt that this text can be and of every output token; None when unknown.

        ``max_output_tokens`` bounds thinking and answer together (googleapis/python-genai issues 811 and 2062), both
        billed as output.
        """
        return self._prices.worst_case_usd(self.model, most_input_tokens(effect), effect.max_output_tokens)

    def quota_units(self, effect: CallModel) -> int:
        """Return 0: a model call is no tool call."""
        return 0

    async def _ask(self, contents: types.Content, config: types.GenerateContentConfig) -> types.GenerateContentResponse:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._client.aio.models.generate_content(
                    model=self.model, contents=contents, config=config
                )
        except NewsproofError:
            raise  # from the transport: the body was too large or broken
        except vendor.APIError as exc:
            raise translate_status(exc, self.model, datetime.now(UTC)) from exc
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            raise transport_failure(exc, "Gemini", self._timeout_s) from exc
        except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError) as exc:
            # Not JSON, or JSON of another shape than the library expects; the request was built before.
            raise UselessAnswerError(
                f"Gemini's answer is not a generateContent response ({type(exc).__name__}); it is asked again, "
                "check GEMINI_BASE_URL if this goes on"
            ) from exc
        except Exception as exc:
            raise PermanentError(
                f"calling Gemini failed in an unforeseen way ({type(exc).__name__}: {exc}); please report this",
                kind="internal",
            ) from exc

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()


def _request(effect: CallModel) -> tuple[types.Content, types.GenerateContentConfig]:
    mark = untrusted.new_mark()
    system = effect.system
    if any(isinstance(part, Untrusted) for part in effect.parts):
        system = f"{system}\n\n{untrusted.explain(mark)}".lstrip()
    parts = [types.Part(text=text) for text in untrusted.render(effect.parts, mark)]
    try:
        config = types.GenerateContentConfig(
            system_instruction=system or None,
            temperature=effect.temperature,
            max_output_tokens=effect.max_output_tokens,
            candidate_count=1,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
            **_functions(effect),
            **_structure(effect),
        )
    except pydantic.ValidationError as exc:
        raise PermanentError(
            f"the request of task {effect.task!r} is not one that Gemini takes: {exc}", kind="invalid_request"
        ) from exc
    return types.Content(role="user", parts=parts), config


def _functions(effect: CallModel) -> dict[str, Any]:
    if not effect.functions:
        return {}
    declared = [
        types.FunctionDeclaration(name=f.name, description=f.description, parameters_json_schema=f.parameters)
        for f in effect.functions
    ]
    calling = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.AUTO)
    if effect.forced_function is not None:
        calling = types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=[effect.forced_function]
        )
    return {
        "tools": [types.Tool(function_declarations=declared)],
        "tool_config": types.ToolConfig(function_calling_config=calling),
    }


def _structure(effect: CallModel) -> dict[str, Any]:
    if effect.response_schema is None:
        return {}
    return {"response_mime_type": "application/json", "response_json_schema": effect.response_schema}
