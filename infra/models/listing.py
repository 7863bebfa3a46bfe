"""A model provider's list of available models, for ``newsproof doctor``."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class ListedModel(msgspec.Struct, frozen=True):
    """A model in a provider's list. ``name``: the name in MODEL_* settings, without the provider.

    ``context``: maximum tokens of prompt and response together (Gemini: of the prompt alone); None = not stated.
    """

    name: str
    context: int | None = None


@runtime_checkable
class ListsModels(Protocol):
    """An adapter whose provider can list its models."""

    async def listed_models(self) -> tuple[ListedModel, ...]:
        """Return the models available to the key, with GET requests that cost nothing.

        Raises:
            TransientError, PermanentError: as ``Port.perform``.
            UselessAnswerError: the response is not a list of models.
        """
        ...
