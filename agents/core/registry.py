"""The registry: derives a flow's graph from what its steps take and emit, and refuses an incomplete graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args, get_origin, get_type_hints

from agents.core.case_core import CaseCore
from agents.core.flow import Flow, Kind
from agents.core.step import On, Step
from schemas import events as ev
from schemas.errors import ConfigError, ContractError


class Registry:
    """The graphs of one flow, one for each kind of case. Immutable once made.

    Raises:
        ConfigError: an emitted event leads to no step (dangling) or to two (duplicate), or two steps share a name.
    """

    def __init__(self, steps: Iterable[Step] | Mapping[type[ev.Event], Iterable[Step]], flow: Flow) -> None:
        """``steps``: by the opening event of their kind of case, or just the steps in a flow with one kind."""
        self.flow = flow
        given = steps if isinstance(steps, Mapping) else {flow.kinds[0].opening: steps}
        self._graphs = {opening: _Graph(of_kind, flow.kind_of(opening)) for opening, of_kind in given.items()}
        self._of_state = {graph.kind.state: graph for graph in self._graphs.values()}
        self.steps: dict[str, Step] = {}
        self.depth: dict[str, int] = {}
        for graph in self._graphs.values():
            for name, step in graph.steps.items():
                if self.steps.setdefault(name, step) is not step:
                    raise ConfigError(f"two steps are called {name!r}: rename one of them")
                self.depth[name] = max(graph.depth[name], self.depth.get(name, 0))

    def next_step(self, case: CaseCore) -> Step | None:
        """Return the step that the case's head leads to, or None when the case is closed. Pure.

        Raises:
            ContractError: as :meth:`step_after`.
        """
        return self._of_state[type(case)].step_after(case.head)

    def step_after(self, head: ev.Event, opening: type[ev.Event] | None = None) -> Step | None:
        """Return the step that this head leads to, in a case that ``opening`` opened (the flow's first kind without it).

        Raises:
            ContractError: the head names a step that this graph does not have (reason ``unknown_step``).
        """
        return self._graph(opening).step_after(head)

    def edges(self, opening: type[ev.Event] | None = None) -> list[tuple[str, str, str]]:
        """Return (writer, event with its route, reader) for every arrow of one kind of case, in flow order.

        Beside steps, the ends are those of the kind: the writers of its entries, such as intake or any_step (for
        ``StepFailed``), and the consumer of finished cases, such as publish.
        """
        return self._graph(opening).edges()

    def mermaid(self, opening: type[ev.Event] | None = None) -> str:
        """Return the graph of one kind of case as a Mermaid flow chart. README and docs contain these texts."""
        graph = self._graph(opening)
        opens, sink, (first, _) = graph.kind.source, graph.kind.sink, graph.kind.entries[0]
        lines = ["flowchart LR", f"  {opens}([{opens}]) --> {first}"]
        lines += [f'  {a} -- "{label}" --> {b}' for a, label, b in graph.edges()]
        return "\n".join([*lines, f"  {sink} --> {graph.kind.gives}([{graph.kind.gives}])"])

    def _graph(self, opening: type[ev.Event] | None) -> _Graph:
        return self._graphs[opening or self.flow.kinds[0].opening]


class _Graph:
    """The graph of one kind of case."""

    def __init__(self, steps: Iterable[Step], kind: Kind) -> None:
        self.kind = kind
        self.steps: dict[str, Step] = {}
        for step in steps:
            if step.name in self.steps:
                raise ConfigError(f"two steps are called {step.name!r}: rename one of them")
            self.steps[step.name] = step
        self._table: dict[type[ev.Event], tuple[str | None, dict[str | None, Step]]] = {}
        for step in self.steps.values():
            for on in step.takes:
                self._connect(step, on)
        self._refuse_dangling()
        self.depth = self._depths()

    def step_after(self, head: ev.Event) -> Step | None:
        if isinstance(head, ev.StepStarted) or (isinstance(head, ev.StepFailed) and head.outcome == "retry"):
            if head.step not in self.steps:
                raise ContractError(
                    f"the case waits for the step {head.step[:80]!r}, which there is not (any more): requeue its letter",
                    reason="unknown_step",
                )
            return self.steps[head.step]
        row = self._table.get(type(head))
        if row is None:
            return None
        field, by_value = row
        return by_value.get(None if field is None else getattr(head, field))

    def edges(self) -> list[tuple[str, str, str]]:
        arrows: list[tuple[str, str, str]] = []
        opening, *others = ((writer, (event,)) for writer, event in self.kind.entries)
        emitters: list[tuple[str, tuple[type[ev.Event], ...]]] = [
            opening,
            *((s.name, s.emits) for s in self._in_flow_order()),
            *others,
        ]
        for source, emitted in emitters:
            for event in emitted:
                if event in ev.TERMINAL:
                    arrows.append((source, event.__name__, self.kind.sink))
                    continue
                _, by_value = self._table[event]
                for value, step in by_value.items():
                    label = event.__name__ if value is None else f"{event.__name__} · {value}"
                    arrows.append((source, label, step.name))
        return arrows

    def _connect(self, step: Step, on: On) -> None:
        if len(on.routes) > 1:
            raise ConfigError(f"step {step.name!r}: {on!r} names more than one routing field: use one")
        field, value = next(iter(on.routes.items()), (None, None))
        known_field, by_value = self._table.setdefault(on.event, (field, {}))
        if field != known_field:
            raise ConfigError(
                f"step {step.name!r}: {on!r} routes by {field}, another step by {known_field}: agree on one"
            )
        if field is not None and value not in _values(on.event, field):
            raise ConfigError(
                f"step {step.name!r}: {on!r}: {field} is never {value!r}, only {_values(on.event, field)}"
            )
        if value in by_value:
            raise ConfigError(f"{on!r} leads to two steps, {by_value[value].name!r} and {step.name!r}: drop one")
        by_value[value] = step

    def _refuse_dangling(self) -> None:
        emitted: dict[type[ev.Event], str] = {event: writer for writer, event in self.kind.entries}
        emitted |= {e: s.name for s in self.steps.values() for e in s.emits if e not in ev.TERMINAL}
        for event, by in emitted.items():
            if event not in self._table:
                raise ConfigError(f"{event.__name__}, emitted by {by}, leads to no step: let a step take it")
            field, by_value = self._table[event]
            if field is None:
                continue
            wanted = set(_values(event, field)) - ({"retry"} if event is ev.StepFailed else set())
            if missing := sorted(wanted - {str(v) for v in by_value}):
                raise ConfigError(f"{event.__name__} with {field} {missing}, emitted by {by}, leads to no step")

    def _depths(self) -> dict[str, int]:
        # The most steps to the end of a case, without loops: the scheduler finishes cases before it opens new ones.
        after: dict[str, set[str]] = {name: set() for name in self.steps}
        for source, _, target in self.edges():
            if source in after and target in after:
                after[source].add(target)

        def longest(name: str, on_the_way: frozenset[str]) -> int:
            ways = after[name] - on_the_way
            return max((1 + longest(target, on_the_way | {target}) for target in ways), default=0)

        return {name: longest(name, frozenset({name})) for name in self.steps}

    def _in_flow_order(self) -> list[Step]:
        order: list[Step] = []
        waiting: list[type[ev.Event]] = [self.kind.opening]
        while waiting:
            event = waiting.pop(0)
            for step in self._table.get(event, (None, {}))[1].values():
                if step not in order:
                    order.append(step)
                    waiting += [e for e in step.emits if e not in ev.TERMINAL]
        return order + [s for s in self.steps.values() if s not in order]


def _values(event: type[ev.Event], field: str) -> tuple[str, ...]:
    hint = get_type_hints(event).get(field)
    if get_origin(hint) is not Literal:
        raise ConfigError(f"{event.__name__}.{field} is no Literal: only a Literal field can route")
    return get_args(hint)
