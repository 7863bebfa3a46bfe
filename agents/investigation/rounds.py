"""The steps of a round that an investigation shares with the news pipeline, named for its own graph."""

from __future__ import annotations

from agents.core.stop import STEP as STOP
from agents.investigation.prompt_parts import subject_parts
from agents.planning.expand import ExpandKeywords
from agents.planning.plan import PlanTools
from agents.planning.scrape import STEP as SCRAPE
from agents.planning.search import STEP as SEARCH

STEPS = (
    PlanTools("plan_searches"),
    SEARCH,
    SCRAPE,
    ExpandKeywords("investigate_expand", subject_parts),
    STOP,
)
