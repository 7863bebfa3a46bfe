"""A call in the form in which an OpenAI-compatible server is asked for it, and its reply in the form that was wanted."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from infra.models import openai_schema
from schemas.effects import CallModel, Failure, FunctionCall, ModelReply, Reply


def as_asked(effect: CallModel, *, forcing: str, strict: bool) -> CallModel:
    """Return the effect with strict schemas where they have that form, and a forced function as a plan where asked for."""
    asked = strictly(effect) if strict else effect
    return _planned(asked) if forcing == "plan" and effect.forced_function is not None else asked


def strictly(effect: CallModel) -> CallModel:
    """Return the effect with its schemas in strict form; one that has none stays as it is."""
    functions = tuple(replace(f, parameters=_strict(f.parameters)) for f in effect.functions)
    schema = effect.response_schema
    return replace(effect, functions=functions, response_schema=None if schema is None else _strict(schema))


def as_wanted(reply: Reply, effect: CallModel) -> Reply:
    """Return a reply to any form of the effect as one to the effect itself.

    The arguments of a plan become the function's call, and nulls that stand for left-out properties go.
    """
    if not isinstance(reply, ModelReply):
        return reply
    if effect.forced_function is not None and not reply.function_calls:
        if not isinstance(reply.data, dict):
            text = f"the arguments of {effect.forced_function!r} are no object; it is asked again"
            return Failure(kind="invalid_output", message=text, retryable=True, status=200)
        reply = replace(reply, text="", data=None, function_calls=(FunctionCall(effect.forced_function, reply.data),))
    declared = {f.name: f.parameters for f in effect.functions}
    calls = tuple(replace(c, args=_left_out(declared[c.name], c.args)) for c in reply.function_calls)
    data = reply.data if effect.response_schema is None else _left_out(effect.response_schema, reply.data)
    return replace(reply, function_calls=calls, data=data)


def _planned(effect: CallModel) -> CallModel:
    (forced,) = (f for f in effect.functions if f.name == effect.forced_function)
    words = f"Answer with the arguments of {forced.name}: {forced.description}"
    system = f"{effect.system}\n\n{words}".lstrip()
    return replace(effect, system=system, functions=(), forced_function=None, response_schema=forced.parameters)


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    return openai_schema.strict(schema) or schema


def _left_out(schema: dict[str, Any], data: Any) -> Any:
    return openai_schema.without_stand_ins(schema, data)
