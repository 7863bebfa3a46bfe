"""The memo of a case: results of pure functions of its own texts, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Memo:
    """The cache of one case, passed on from state to state.

    It adds no information to the case: any two memos are equal, and an empty one gives the same values. A function is
    called again only for other arguments, which are compared by value.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[tuple[Hashable, ...], Any] = {}

    def once(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return ``function(*args)``. The function must be pure, its arguments hashable and positional."""
        key = (function, *args)
        if kwargs:
            raise TypeError("give the arguments by position: they are the key of the value")
        try:
            value: R = self._values[key]
        except KeyError:
            value = self._values[key] = function(*args, **kwargs)
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memo)

    def __hash__(self) -> int:
        return hash(Memo)

    def __repr__(self) -> str:
        return "Memo()"

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()  # a pickled case takes no cached values along
