"""What a provider of models says of those that are open to us, for ``newsproof doctor``."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class ListedModel(msgspec.Struct, frozen=True):
    """One model of a provider's list. ``name``: as MODEL_* settings name it, without the provider.

    ``context``: most tokens of a request, prompt and answer together (Gemini: of the prompt alone); None: not told.
    """

    name: str
    context: int | None = None


@runtime_checkable
class ListsModels(Protocol):
    """An adapter whose provider can be asked for its list of models."""

    async def listed_models(self) -> tuple[ListedModel, ...]:
        """Return the models that are open to the key, by GET requests that cost nothing.

        Raises:
            TransientError, PermanentError: as ``Port.perform``.
            UselessAnswerError: the answer is no list of models.
        """
        ...
