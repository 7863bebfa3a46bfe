"""The ASGI application: the API, the page and the documentation, behind one guard."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp

from newsproof.app.version import VERSION
from newsproof.web import pages
from newsproof.web.api import analytics as analytics_api
from newsproof.web.api import investigations as investigations_api
from newsproof.web.api import live as live_api
from newsproof.web.api import news as news_api
from newsproof.web.api import operations as operations_api
from newsproof.web.api import prices as prices_api
from newsproof.web.api import research as research_api
from newsproof.web.api import sources as sources_api
from newsproof.web.api import watches as watches_api
from newsproof.web.backend import Backend
from newsproof.web.guard import Guard
from newsproof.web.rates import Rates
from newsproof.web.responses import answer_errors
from newsproof.web.tokens import Tokens


def application(backend: Backend, token: str) -> ASGIApp:
    """Return the application over these parts. Clients must present ``token``."""
    tokens = Tokens(token, Rates(backend.settings.web_requests_per_minute))
    app = FastAPI(
        title="Newsproof",
        version=VERSION,
        description="Trading signals from crypto news, verified by search: signals, the cases behind them, a research chat, and investigations.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.backend, app.state.tokens = backend, tokens
    answer_errors(app, pages.wrong_address)
    for part in (
        live_api,
        news_api,
        prices_api,
        research_api,
        investigations_api,
        watches_api,
        analytics_api,
        operations_api,
        sources_api,
        pages,
    ):
        app.include_router(part.router)
    return Guard(app, backend.settings, tokens)
