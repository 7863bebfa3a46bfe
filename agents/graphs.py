"""The graphs: the pipeline from news to signals, the research chat, and investigations.

Every module with a ``STEP`` or ``STEPS`` in the packages named here is part of a graph.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from datetime import datetime
from types import ModuleType

import msgspec

import agents.investigation
import agents.planning
import agents.research
import agents.retraction
import agents.verification
from agents.core.case import Case, fold, open_case
from agents.core.flow import Flow, Kind
from agents.core.registry import Registry
from agents.core.step import Step
from agents.core.stop import STEP as STOP
from agents.investigation.investigation import Investigation, fold_investigation, open_investigation
from agents.research.turn import Turn, fold_turn, open_turn
from schemas import events as ev
from schemas.news import News
from schemas.research_events import FinishRequested, InvestigationAsked, QuestionAsked


def _unreadable_news(at: datetime) -> ev.Event:
    news = News(source="unreadable", text="", published_at=at)
    return ev.EventReceived(news=news, config_hash="", text_hash="", language="other")


def _unreadable_subject(at: datetime) -> ev.Event:
    return InvestigationAsked(question="", subject="", as_of=at, config_hash="", language="other")


def _unreadable_question(_at: datetime) -> ev.Event:
    return QuestionAsked(message="", config_hash="", language="other", chat_id="")


NEWS = Flow(
    name="cases",
    events=frozenset(ev.NEWS_EVENTS),
    kinds=(
        Kind(
            opening=ev.EventReceived,
            state=Case,
            entries=(
                ("intake", ev.EventReceived),
                ("second_looks", ev.SecondLookOpened),
                ("any_step", ev.StepFailed),
                ("operator", ev.CancelRequested),
            ),
            source="news",
            sink="publish",
            gives="signals",
            open=open_case,
            fold=fold,
            unreadable=_unreadable_news,
            also_opened_by=(ev.SecondLookOpened,),
        ),
    ),
    # No letter for a second look or a further claim: requeued, it would open another case for news that already has one. None
    # for a question either: who asked sees the failure, and can ask again.
    letter=lambda case: (
        (case.received.news.key, msgspec.json.encode(case.received.news))
        if case.look is None and case.received.part is None and not case.news.is_asked
        else None
    ),
)
_BY_A_PERSON = (("any_step", ev.StepFailed), ("person", ev.CancelRequested), ("person", FinishRequested))
RESEARCH = Flow(
    name="research",
    events=frozenset(ev.RESEARCH_EVENTS),
    kinds=(
        Kind(
            opening=QuestionAsked,
            state=Turn,
            entries=(("web", QuestionAsked), *_BY_A_PERSON),
            source="questions",
            sink="web",
            gives="answers",
            open=open_turn,
            fold=fold_turn,
            unreadable=_unreadable_question,
        ),
        Kind(
            opening=InvestigationAsked,
            state=Investigation,
            entries=(("web", InvestigationAsked), *_BY_A_PERSON),
            source="subjects",
            sink="web",
            gives="briefs",
            open=open_investigation,
            fold=fold_investigation,
            unreadable=_unreadable_subject,
        ),
    ),
    letter=lambda _case: None,  # the asker sees the failure and can ask again
)


def verification() -> Registry:
    """Return the registry of the news pipeline: every ``STEP`` of verification, planning and retraction."""
    return Registry(_steps_in(agents.verification, agents.planning, agents.retraction), NEWS)


def research() -> Registry:
    """Return the registry of the research journal: the graph of the chat, and that of investigations."""
    chat, investigation = _steps_in(agents.research), _steps_in(agents.investigation)
    steps: dict[type[ev.Event], Iterable[Step]] = {QuestionAsked: (*chat, STOP), InvestigationAsked: investigation}
    return Registry(steps, RESEARCH)


def _steps_in(*packages: ModuleType) -> Iterable[Step]:
    # Sorted by file name, whatever the folder: pictures and listings show the steps in this order.
    paths = sorted((m.name, f"{p.__name__}.{m.name}") for p in packages for m in pkgutil.iter_modules(p.__path__))
    modules = [importlib.import_module(path) for _, path in paths]
    return (step for m in modules for step in (*getattr(m, "STEPS", ()), *((m.STEP,) if hasattr(m, "STEP") else ())))
