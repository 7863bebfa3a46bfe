"""What was worked out of one case: the values of pure functions of its own texts, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Memo:
    """Belongs to one case, goes with it from state to state, and ends with it.

    It holds nothing that the case does not hold: any two are equal, and an empty one gives the same values. A function is
    asked again only for other arguments, which are compared by value.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[tuple[Hashable, ...], Any] = {}

    def once(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return ``function(*args)``; it must be pure, and its arguments hashable and given by position."""
        key = (function, *args)
        if kwargs:
            raise TypeError("give the arguments by position: the value is found again by them")
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
        return "WorkedOut()"

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()  # whoever sends a case elsewhere sends what it is, and not what was worked out of it
