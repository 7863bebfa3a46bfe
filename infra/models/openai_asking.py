"""Conversion of calls into a form that an OpenAI-compatible server accepts, and of its replies into the call's form."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from schemas.effects import CallModel, Failure, FunctionCall, ModelReply, Reply


def as_asked(effect: CallModel, *, forcing: str, strict: bool) -> CallModel:
    """Return the effect to send: with ``strict``, its schemas in strict form; with ``forcing`` "plan", as a plan.

    A plan requests the forced function's arguments by JSON schema, without tools.
    """
    asked = strictly(effect) if strict else effect
    return _planned(asked) if forcing == "plan" and effect.forced_function is not None else asked


def strictly(effect: CallModel) -> CallModel:
    """Return the effect with its schemas in strict form; schemas without a strict form are not changed."""
    functions = tuple(replace(f, parameters=_strict_or_same(f.parameters)) for f in effect.functions)
    schema = effect.response_schema
    return replace(effect, functions=functions, response_schema=None if schema is None else _strict_or_same(schema))


def as_wanted(reply: Reply, effect: CallModel) -> Reply:
    """Return the reply to any form of the effect as a reply to the effect itself.

    The arguments of a plan become a call of the function, and nulls that replace omitted properties are removed.
    """
    if not isinstance(reply, ModelReply):
        return reply
    if effect.forced_function is not None and not reply.function_calls:
        if not isinstance(reply.data, dict):
            text = f"the arguments of {effect.forced_function!r} are no object"
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


def _strict_or_same(schema: dict[str, Any]) -> dict[str, Any]:
    return strict(schema) or schema


def _left_out(schema: dict[str, Any], data: Any) -> Any:
    return without_stand_ins(schema, data)


# JSON Schemas in the form that OpenAI's structured outputs require with ``strict``, and the conversion of responses.
#
# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas: every object forbids other properties
# and requires all of its own; optional properties are null instead; keywords that are not listed are refused. Servers
# of open models make a grammar from such a schema as from any other.

Schema = dict[str, Any]

_TAKEN = {
    "type", "properties", "required", "items", "enum", "const", "anyOf", "description", "additionalProperties", "pattern",
    "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
}  # fmt: skip
_NULL = {"type": "null"}


def strict(schema: Schema) -> Schema | None:
    """Return the schema in strict form; None if it has none, due to another keyword or an object without properties.

    Gemini's ``propertyOrdering`` becomes the order of the properties.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except ValueError:
        return None


def without_stand_ins(schema: Schema, data: Any) -> Any:
    """Return data of ``strict(schema)`` as data of ``schema``: without the nulls that replace omitted properties."""
    if isinstance(data, list) and isinstance(schema.get("items"), dict):
        return [without_stand_ins(schema["items"], item) for item in data]
    if not isinstance(data, dict) or "properties" not in schema:
        return data
    properties: dict[str, Schema] = schema["properties"]
    required = schema.get("required", ())
    return {
        name: without_stand_ins(properties.get(name, {}), value)
        for name, value in data.items()
        if value is not None or name in required or name not in properties or _takes_null(properties[name])
    }


def _strict(schema: Schema) -> Schema:
    kinds, order = schema.get("type"), schema.get("propertyOrdering", ())
    made = {key: value for key, value in schema.items() if key != "propertyOrdering"}
    if set(made) - _TAKEN:
        raise ValueError(f"{sorted(set(made) - _TAKEN)} is not taken")
    if isinstance(kinds, list) and "object" in kinds:
        return {"anyOf": [_strict({**schema, "type": kind}) if kind == "object" else {"type": kind} for kind in kinds]}
    if "anyOf" in made:
        made["anyOf"] = [_strict(schema_part) for schema_part in made["anyOf"]]
    if "items" in made:
        made["items"] = _strict(made["items"])
    if kinds != "object":
        return made
    if "properties" not in made or made.get("additionalProperties", False) is not False:
        raise ValueError("an object of any properties")
    names = [
        *(schema_part for schema_part in order if schema_part in made["properties"]),
        *(n for n in made["properties"] if n not in order),
    ]
    required = made.get("required", ())
    properties = {name: _strict(made["properties"][name]) for name in names}
    optional = {n for n in names if n not in required and not _takes_null(made["properties"][n])}
    made["properties"] = {
        n: {"anyOf": [schema_part, _NULL]} if n in optional else schema_part for n, schema_part in properties.items()
    }
    return {**made, "required": names, "additionalProperties": False}


def _takes_null(schema: Schema) -> bool:
    kinds = schema.get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds) or _NULL in schema.get("anyOf", ())
