"""Upper bounds of a prompt's size in tokens, for reserving budget before the tokens are counted."""

from __future__ import annotations

import msgspec

from schemas.effects import CallModel

AROUND_A_REQUEST = 1024
"""Tokens beside the texts: roles, the sentence that explains the marks (under 500 bytes), the frame of a schema."""
AROUND_A_PART = 256
"""Marks and label of a part (under 170 bytes), or the frame of a function's declaration."""


def most_input_tokens(effect: CallModel) -> int:
    """Return an upper bound for any tokenizer: a token stands for at least one byte of UTF-8.

    The adapter's cleaning shortens a text. The replacement of a forged mark (14 bytes) is fewer tokens than the mark's
    shortest form had bytes (11).
    """
    texts = [effect.system, *(part.text for part in effect.parts)]
    schemas = [*(f.parameters for f in effect.functions), effect.response_schema or {}]
    said = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    declared = sum(len(msgspec.json.encode(schema)) for schema in schemas)
    named = sum(len(f.name.encode()) + len(f.description.encode()) for f in effect.functions)
    around = AROUND_A_REQUEST + AROUND_A_PART * (len(effect.parts) + len(effect.functions))
    return said + declared + named + around
