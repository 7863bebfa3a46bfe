"""JSON Schemas as OpenAI's structured outputs demand them with ``strict``, and the answers that come back.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas: every object forbids other properties and
requires all of its own; what may be left out is null instead; keywords beyond the list are refused. Servers of open models
make a grammar of such a schema as of any other.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TAKEN = {
    "type", "properties", "required", "items", "enum", "const", "anyOf", "description", "additionalProperties", "pattern",
    "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
}  # fmt: skip
_NULL = {"type": "null"}


def strict(schema: Schema) -> Schema | None:
    """Return the schema in strict form; None when it has none (it uses another keyword, or an object without properties).

    ``propertyOrdering``, which is Gemini's, becomes the order of the properties.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except ValueError:
        return None


def without_stand_ins(schema: Schema, data: Any) -> Any:
    """Return an answer to ``strict(schema)`` as one to ``schema``: without the nulls of properties that were left out."""
    if isinstance(data, list) and isinstance(schema.get("items"), dict):
        return [without_stand_ins(schema["items"], one) for one in data]
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
        made["anyOf"] = [_strict(one) for one in made["anyOf"]]
    if "items" in made:
        made["items"] = _strict(made["items"])
    if kinds != "object":
        return made
    if "properties" not in made or made.get("additionalProperties", False) is not False:
        raise ValueError("an object of any properties")
    names = [*(one for one in order if one in made["properties"]), *(n for n in made["properties"] if n not in order)]
    required = made.get("required", ())
    found = {name: _strict(made["properties"][name]) for name in names}
    optional = {n for n in names if n not in required and not _takes_null(made["properties"][n])}
    made["properties"] = {n: {"anyOf": [one, _NULL]} if n in optional else one for n, one in found.items()}
    return {**made, "required": names, "additionalProperties": False}


def _takes_null(schema: Schema) -> bool:
    kinds = schema.get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds) or _NULL in schema.get("anyOf", ())
