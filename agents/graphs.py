"""The two graphs: the pipeline from news to signals, and the research chat.

A step is found by its file: every module with a ``STEP`` in the packages named here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from datetime import datetime
from types import ModuleType

import msgspec

import agents.planning
import agents.research
import agents.retraction
import agents.verification
from agents.core.case import fold, open_case
from agents.core.flow import Flow
from agents.core.registry import Registry
from agents.core.step import Step
from agents.research.turn import fold_turn, open_turn
from schemas import events as ev
from schemas.news import News
from schemas.research_events import FinishRequested, QuestionAsked


def _unreadable_news(at: datetime) -> ev.Event:
    news = News(source="unreadable", text="", published_at=at)
    return ev.EventReceived(news=news, config_hash="", text_hash="", language="other")


def _unreadable_question(_at: datetime) -> ev.Event:
    return QuestionAsked(message="", config_hash="", language="other", chat_id="")


NEWS = Flow(
    name="cases",
    opening=ev.EventReceived,
    events=frozenset(ev.NEWS_EVENTS),
    entries=(("intake", ev.EventReceived), ("any_step", ev.StepFailed), ("operator", ev.CancelRequested)),
    source="news",
    sink="publish",
    gives="signals",
    open=open_case,
    fold=fold,
    unreadable=_unreadable_news,
    letter=lambda case: (case.news.key, msgspec.json.encode(case.news)),
)
RESEARCH = Flow(
    name="research",
    opening=QuestionAsked,
    events=frozenset(ev.RESEARCH_EVENTS),
    entries=(
        ("web", QuestionAsked),
        ("any_step", ev.StepFailed),
        ("person", ev.CancelRequested),
        ("person", FinishRequested),
    ),
    source="questions",
    sink="web",
    gives="answers",
    open=open_turn,
    fold=fold_turn,
    unreadable=_unreadable_question,
    letter=lambda _turn: None,  # the asker sees the failure and can ask again
)


def verification() -> Registry:
    """Return the registry of the news pipeline: every ``STEP`` of verification, planning and retraction."""
    return Registry(_steps_in(agents.verification, agents.planning, agents.retraction), NEWS)


def research() -> Registry:
    """Return the registry of the research chat: every ``STEP`` in a module of ``agents.research``."""
    return Registry(_steps_in(agents.research), RESEARCH)


def _steps_in(*packages: ModuleType) -> Iterable[Step]:
    # By the name of the file, whatever its folder: pictures and listings show the steps in this order.
    found = sorted((m.name, f"{p.__name__}.{m.name}") for p in packages for m in pkgutil.iter_modules(p.__path__))
    modules = (importlib.import_module(path) for _, path in found)
    return (m.STEP for m in modules if hasattr(m, "STEP"))
