"""``newsproof up``: runs the pipeline in one process tree until a signal ends it."""

from __future__ import annotations

import socket
import sys

from pydantic import SecretStr

from infra.embedded.child import DirectoryLock
from infra.settings import Settings
from newsproof.app.composition import FULL_PIPELINE, FULL_PIPELINE_LIVE, mode_in_words, refuse_unusable, search_in_words
from newsproof.app.hints import command_name
from newsproof.app.processes.supervisor import Pipeline, pipeline
from newsproof.app.research_composition import refuse_unusable_research
from newsproof.app.servers import say_on_stderr as say
from newsproof.web.server import opened, tls_of
from newsproof.web.tokens import opened_with, token_of
from schemas.errors import ConfigError

_EXAMPLE = (
    """echo '{"source": "me", "text": "SEC approves 11 spot Bitcoin exchange-traded products", "published_at": "%s"}'"""
)
_OF_THE_OFFLINE_PAGES = "2024-01-10T21:00:00Z"
"""When the offline pages speak of it: news of today would be too new to them."""


async def up(settings: Settings, *, workers: int) -> None:
    """Run the pipeline until cancelled.

    Raises:
        NewsproofError: the pipeline cannot start; the text says what to correct.
    """
    wanted = FULL_PIPELINE_LIVE if settings.mode == "live" else FULL_PIPELINE
    changes = {name: value for name, value in wanted.items() if name not in settings.model_fields_set}
    at = settings.model_copy(update=changes)
    refuse_unusable(at)
    refuse_unusable_research(at)
    tls_of(at)  # made to see that it can be
    token = token_of(at)
    lock = DirectoryLock(settings.newsproof_data_dir / "up", what="`newsproof up`")
    lock.acquire()
    try:
        # Opened before the address is printed and held until the end: no other program can take the port and get
        # the token.
        with _listening(at) as listening:
            port = listening.getsockname()[1]
            address = opened_with(at.page_at(port), at, token, terminal=sys.stderr.isatty())
            # The page gets the token as a setting: the address that it prints goes to a log, and holds no token.
            at = at.model_copy(update={"web_port": port, "web_token": SecretStr(token)})
            say(f"Starting in {settings.newsproof_data_dir} …")
            async with pipeline(at, workers=workers, page=listening) as running:
                _print_started(running, address, changes, workers)
                await running.watch()
    finally:
        lock.release()


def _listening(settings: Settings) -> socket.socket:
    """Open the page's port. If it is taken, open a free one, unless the user chose the port."""
    try:
        return opened(settings)
    except ConfigError:
        if "web_port" in settings.model_fields_set:
            raise
        return opened(settings.model_copy(update={"web_port": 0}))


def _print_started(running: Pipeline, page: str, changes: dict[str, object], workers: int) -> None:
    settings = running.settings
    own = running.servers.own
    say("")
    say(f"Newsproof runs, {mode_in_words(settings)}; {workers} worker(s), one sink. Ctrl-C ends all of it.")
    if searching := search_in_words(settings):
        say(f"  Search      {searching}")
    say(f"  Page        {page}")
    say(f"  Kafka       {settings.kafka_bootstrap_servers}{'  (embedded)' if 'kafka' in own else ''}")
    say(
        f"  ClickHouse  {_without_password(settings.clickhouse_url or '')}{'  (embedded)' if 'clickhouse' in own else ''}"
    )
    say(f"  Logs        {settings.newsproof_data_dir / 'logs'}")
    for name, value in changes.items():
        say(f"  {name.upper()}={value} is set by `up`, because you have not set it")
    say("")
    command = command_name()
    say("In another terminal, here:")
    said_at = """'$(date -u +%FT%TZ)'""" if settings.mode == "live" else _OF_THE_OFFLINE_PAGES
    say(f"  {_EXAMPLE % said_at} | {command} publish -")
    say(f"  {command} signals --follow")
    say(f"  {command} cases;  {command} case ID;  {command} audit")
    say(f'  {command} sql "SELECT * FROM v_cost_by_step"')
    if "kafka" in own:
        say(f"  {command} kafka    (the login of this Kafka, for other clients)")


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
