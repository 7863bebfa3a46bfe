"""Gemini's chat. Each ``CallModel`` is one ``generateContent`` request, without retries."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
import pydantic
from google.genai import types

from infra.http import UselessAnswerError
from infra.models import untrusted
from infra.models.call_costs import Prices, TokenUsage, most_input_tokens
from infra.models.gemini_client import GeminiClient, translate_status
from infra.models.gemini_parameters import output_limit, takes_sampling, thinking_config
from infra.models.listing import ListedModel
from infra.models.replies import checked_reply, cut, invalid, priced, refused, unpriced
from infra.ports import Answer
from infra.texts import storable_text
from schemas.calls import ProviderMode
from schemas.effects import CallModel, FunctionCall, Untrusted
from schemas.errors import PermanentError

_REFUSALS = {
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION", "PUP_LIMITED_DISABLED", "MODEL_ARMOR",
}  # fmt: skip
"""Finish reasons of a policy (``types.FinishReason``), which a retry would repeat. With others, a retry may succeed."""


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
                f"Gemini's response is not a list of models ({type(exc).__name__}); check GEMINI_BASE_URL"
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
                f"Gemini's response is not a generateContent response ({type(exc).__name__}). "
                "If this persists, check GEMINI_BASE_URL"
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


def read_reply(
    response: types.GenerateContentResponse, effect: CallModel, *, model: str, prices: Prices, asked_at: datetime
) -> Answer:
    """Return the ``Answer``. An unusable response is billed, too, so its error contains its usage and cost.

    Raises:
        UselessAnswerError: cut (the response ended at its token limit), invalid_output (malformed, empty, not JSON, or
            not the forced function), or refused (the prompt or the response was blocked).
    """
    spent = _spent(response, model, prices, asked_at)
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None:
        raise _without_candidate(response, spent)
    reason = candidate.finish_reason.value if candidate.finish_reason else "STOP"
    if reason in _REFUSALS:
        raise refused(
            f"Gemini stopped its response: finish reason {reason} ({candidate.finish_message or 'no further word'})",
            spent,
        )
    parts = (candidate.content.parts if candidate.content else None) or []
    text = storable_text("".join(p.text for p in parts if p.text and not p.thought))
    calls = tuple(_call(p.function_call, spent) for p in parts if p.function_call)
    plain = effect.forced_function is None and effect.response_schema is None
    if reason == "MAX_TOKENS" and not (plain and text):
        raise cut(effect, " and what it may think", spent)
    if reason not in {"STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"}:
        raise invalid(f"Gemini ended with {reason} ({candidate.finish_message or 'no further word'})", spent)
    reply = checked_reply(effect, text, calls, reason.lower(), spent, who="Gemini", answer="Gemini's response")
    return Answer(reply=reply, **spent)


def _call(call: types.FunctionCall, spent: dict[str, Any]) -> FunctionCall:
    try:
        # A round trip removes what the journal cannot store (lone surrogates, huge integers).
        args = orjson.loads(orjson.dumps(call.args or {}))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as exc:
        raise invalid(f"Gemini's function call has arguments that are not valid JSON ({exc})", spent) from exc
    return FunctionCall(name=storable_text(call.name or ""), args=args)


def _without_candidate(response: types.GenerateContentResponse, spent: dict[str, Any]) -> UselessAnswerError:
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        detail = feedback.block_reason_message or "no further word"
        return refused(f"Gemini blocked the prompt for {feedback.block_reason.value} ({detail})", spent)
    return invalid("Gemini's response has no candidate", spent)


def _spent(response: types.GenerateContentResponse, model: str, prices: Prices, asked_at: datetime) -> dict[str, Any]:
    """Return the fields of ``Answer`` other than its reply. Without usage the cost is unknown, not 0."""
    answered_by = storable_text(response.model_version or model)
    used = response.usage_metadata
    if used is None or used.prompt_token_count is None:
        return unpriced(answered_by)
    usage = TokenUsage(
        input=(used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        cached=used.cached_content_token_count or 0,
        output=used.candidates_token_count or 0,
        thinking=used.thoughts_token_count or 0,
    )
    return priced(usage, answered_by, model, prices, asked_at)
