"""Gemini's chat. Each ``CallModel`` is one ``generateContent`` request, without retries."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pydantic
from google.genai import types

from infra.http import UselessAnswerError
from infra.models import untrusted
from infra.models.call_costs import Prices, most_input_tokens
from infra.models.gemini_client import GeminiClient, translate_status
from infra.models.gemini_parameters import output_limit, takes_sampling, thinking_config
from infra.models.gemini_reply import read_reply
from infra.models.listing import ListedModel
from infra.ports import Answer
from schemas.calls import ProviderMode
from schemas.effects import CallModel, Untrusted
from schemas.errors import PermanentError


class GeminiModel:
    """Port for ``CallModel`` with one model. Safe for concurrent calls within one event loop."""

    provider = "gemini"
    mode: ProviderMode = "live"

    def __init__(self, client: GeminiClient, *, model: str, prices: Prices) -> None:
        self.model = model
        self._client, self._prices = client, prices

    async def perform(self, effect: CallModel) -> Answer:
        """Call the model once. An unusable response becomes a ``Failure`` reply, with its cost if known.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, not_open, invalid_request, too_large (the request), not_configured.
        """
        contents, config = _request(self.model, effect)
        asked_at = datetime.now(UTC)
        try:
            response = await self._ask(contents, config)
            return read_reply(response, effect, model=self.model, prices=self._prices, asked_at=asked_at)
        except UselessAnswerError as exc:
            return exc.answer

    def worst_case_usd(self, effect: CallModel) -> Decimal | None:
        """Return the maximum price: for the maximum number of prompt tokens and all output tokens, including thinking.

        None = the price is unknown.
        """
        limit = output_limit(self.model, effect.max_output_tokens, effect.thinking)
        return self._prices.worst_case_usd(self.model, most_input_tokens(effect), limit)

    def quota_units(self, effect: CallModel) -> int:
        """Return 0: a model call is not a tool call."""
        return 0

    async def listed_models(self) -> tuple[ListedModel, ...]:
        """Return the models available to the key, including embedding models, with one GET per 1,000.

        Raises:
            TransientError, PermanentError: as :meth:`perform`.
            UselessAnswerError: the response is not a list of models.
        """
        return await self._client.ask(
            self._listed(),
            doing="asking Gemini for its models",
            refused=lambda exc: translate_status(exc, self.model),
            useless=lambda exc: UselessAnswerError(
                f"Gemini's answer is no list of models ({type(exc).__name__}); check GEMINI_BASE_URL"
            ),
        )

    async def _listed(self) -> tuple[ListedModel, ...]:
        pages = await self._client.models.list(config=types.ListModelsConfig(page_size=1000))
        return tuple(
            [
                ListedModel(model.name.removeprefix("models/"), model.input_token_limit)
                async for model in pages
                if model.name
            ]
        )

    async def _ask(self, contents: types.Content, config: types.GenerateContentConfig) -> types.GenerateContentResponse:
        return await self._client.ask(
            self._client.models.generate_content(model=self.model, contents=contents, config=config),
            doing="calling Gemini",
            refused=lambda exc: translate_status(exc, self.model),
            useless=lambda exc: UselessAnswerError(
                f"Gemini's answer is not a generateContent response ({type(exc).__name__}); it is asked again, "
                "check GEMINI_BASE_URL if this persists"
            ),
        )

    async def close(self) -> None:
        await self._client.close()


def _request(model: str, effect: CallModel) -> tuple[types.Content, types.GenerateContentConfig]:
    mark = untrusted.new_mark()
    system = effect.system
    if any(isinstance(part, Untrusted) for part in effect.parts):
        system = f"{system}\n\n{untrusted.explain(mark)}".lstrip()
    parts = [types.Part(text=text) for text in untrusted.render(effect.parts, mark)]
    try:
        config = types.GenerateContentConfig(
            system_instruction=system or None,
            max_output_tokens=output_limit(model, effect.max_output_tokens, effect.thinking),
            thinking_config=thinking_config(model, effect.thinking),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
            **_sampling(model, effect),
            **_functions(effect),
            **_structure(effect),
        )
    except pydantic.ValidationError as exc:
        raise PermanentError(
            f"the request of task {effect.task!r} is not one that Gemini takes: {exc}", kind="invalid_request"
        ) from exc
    return types.Content(role="user", parts=parts), config


def _sampling(model: str, effect: CallModel) -> dict[str, Any]:
    return {"temperature": effect.temperature, "candidate_count": 1} if takes_sampling(model) else {}


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
