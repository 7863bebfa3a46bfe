"""``newsproof investigate``, ``watch`` and ``watches``: researches a subject, once or repeatedly."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.invocation import Invocation, parse_time, span_name
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import Columns, Sheet, json_line, say_result
from newsproof.app.terminal import command_name
from newsproof.cli.options import ListGroup, argument, command, commands, json_flag, option

if TYPE_CHECKING:
    from infra.settings import Settings
    from newsproof.app.data_access import LogAccess
    from newsproof.app.watches import WatchBook, WatchView
    from newsproof.web.questions import Questions
    from schemas.research_events import BriefWritten, InvestigationAsked
    from streams.feed.turns import TurnFeed, TurnItem


app = commands()
_STORED_WITHIN_S = 30.0


@command(app)
async def investigate(
    invocation: Invocation,
    subject: Annotated[
        str | None,
        argument('Subject to research, such as "Monitor DeepSeek\'s latest developments".', show_default=False),
    ] = None,
    as_of: Annotated[
        str | None,
        option(
            "Ignore everything published later: a day or a time (UTC). Default: now; offline, the corpus's last day.",
            metavar="WHEN",
        ),
    ] = None,
    rounds: Annotated[
        int | None, option("Maximum search rounds. Default: INVESTIGATION_MAX_ROUNDS.", min=1, max=5)
    ] = None,
    searches: Annotated[
        int | None, option("Maximum searches. Default: INVESTIGATION_MAX_SEARCHES.", min=1, max=50)
    ] = None,
    follow: Annotated[
        str | None, option("Follow a running investigation, or show a finished one.", metavar="ID")
    ] = None,
    as_json: Annotated[bool, json_flag("Print one JSON object on the last line instead of the brief.")] = False,
) -> int:
    """Research a subject: search in rounds, verify each claim by quotes, and write a brief with references.

    Offline, the bundled corpus covers DeepSeek, Kraken, Tether and Uniswap.

    Uses the pipeline that is running on the data directory. If none is running, starts one and stops it at the end.

    Exit status 1 if it ends without a brief.

    Raises:
        ConfigError: neither or both of a subject and ``follow`` are given, or a time or an id is invalid.
    """
    from agents.graphs import RESEARCH
    from newsproof.app.composition import address_of, mode_in_words, topics_of
    from newsproof.app.processes.supervisor import alongside, installation
    from newsproof.app.research_composition import (
        investigation_snapshot_of,
        refuse_unusable_research,
        research_snapshot_of,
    )
    from newsproof.web.questions import Questions
    from schemas.errors import ConfigError
    from streams.feed.turns import TurnFeed

    settings = invocation.settings()
    refuse_unusable_research(settings)
    event = None if follow else opening_of(settings, subject or "", as_of, rounds, searches)
    if (subject is None) == (follow is None):
        raise ConfigError('give either a subject or --follow ID: newsproof investigate "DeepSeek"')
    say(f"Newsproof, {mode_in_words(settings)}")
    if settings.mode != "live":
        say(corpus_in_words())
    if event is not None and is_whole_question(event):
        say(
            f"No rule finds the subject of this question, so all of it is researched as the name of one: “{event.subject}”. "
            f'Better name the subject alone: {command_name()} investigate "Kraken"'
        )
    starting = "No worker for investigations is running here. Starting one for this investigation …"
    async with installation(settings, RESEARCH.name, starting=starting, workers=0, research=True) as (at, own):
        questions = Questions(address_of(at), topics_of(at), research_snapshot_of(at), investigation_snapshot_of(at))
        feed = TurnFeed(address_of(at), topics_of(at), questions.config_of, group=topics_of(at).group(RESEARCH.name))
        async with alongside(questions.run(), feed.run()):
            item = await _item(questions, feed, event, follow)
            try:
                status = await _followed(feed, item, as_json=as_json)
                if own:  # the next investigation compares itself with this brief, which must be in the tables by then
                    await _stored(at, item)
                return status
            except asyncio.CancelledError:
                continues = "It pauses until `newsproof up` runs. Then follow it" if own else "It continues. Follow it"
                say(f"{continues} with: {command_name()} investigate --follow {item.chat_id}")
                raise


def corpus_in_words() -> str:
    """Return which subjects the bundled corpus covers, and until when."""
    from infra.offline.investigating import LAST_DAY, SUBJECTS

    return (
        f"Offline, the bundled corpus covers {', '.join(SUBJECTS[:-1])} and {SUBJECTS[-1]} until "
        f"{LAST_DAY:%Y-%m-%d}. It has nothing on other subjects."
    )


def is_whole_question(event: InvestigationAsked) -> bool:
    """Return whether the text is a question of which no rule found the subject."""
    plain = event.question.rstrip(" ?\uff1f。")
    asks = plain != event.question.rstrip(" 。") or plain.endswith("吗")
    return asks and event.subject == " ".join(plain.split())


def opening_of(
    settings: Settings, subject: str, until: str | None, rounds: int | None, searches: int | None
) -> InvestigationAsked:
    """Return the event that opens the investigation. ``until``: what ``--as-of`` says.

    Raises:
        ConfigError: the subject or the time is invalid.
    """
    from agents.investigation.subject import asked
    from newsproof.app.research_composition import investigated_as_of, least_limits
    from schemas.errors import ConfigError

    now = datetime.now(UTC)
    as_of = investigated_as_of(settings, now) if until is None else _moment(until)
    if as_of > now:
        raise ConfigError(
            f"--as-of {until} is in the future: leave it out to use the current time, or give a past time"
        )
    limits = least_limits(settings, rounds, searches)
    try:
        return asked(subject.strip(), as_of=as_of, config_hash="", limits=limits)
    except ValueError as exc:
        raise ConfigError(str(exc)) from exc


async def _item(questions: Questions, feed: TurnFeed, event: InvestigationAsked | None, follow: str | None) -> TurnItem:
    from schemas.errors import ConfigError

    if event is not None:
        return await questions.investigate(str(uuid.uuid4()), event)
    await feed.follower.ready.wait()
    item = await feed.find(follow or "")
    if item is None or item.subject is None:
        raise ConfigError(f"there is no investigation {follow}: give the id that `newsproof investigate` printed")
    return item


async def _stored(settings: Settings, item: TurnItem) -> None:
    """Return once the brief is in the tables, or after half a minute: the next `up` stores it, too."""
    from infra.clickhouse.lookups import BriefLookup
    from newsproof.app.composition import clickhouse_of
    from schemas.effects import BriefReply, FindBrief

    wanted = FindBrief(
        subject="", language="", as_of=item.asked_at, exclude_case="", investigation=item.chat_id
    )  # only by its id
    async with clickhouse_of(settings) as tables:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STORED_WITHIN_S):
                # The sink does not announce what it has inserted.
                while (await BriefLookup(tables).perform(wanted)).reply == BriefReply(brief=None):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


async def _followed(feed: TurnFeed, item: TurnItem, *, as_json: bool) -> int:
    from newsproof.report.brief import brief_lines
    from schemas.research_events import BriefWritten
    from streams.feed.investigation_events import InvestigationEventConverter

    say(f"Investigation {item.chat_id}: {item.subject}, as of {item.as_of:%Y-%m-%d %H:%M} UTC")
    converter, brief, ended = InvestigationEventConverter(), None, dict[str, Any]()
    async for record in feed.records(item):
        if record is None:
            continue
        brief = record.event if isinstance(record.event, BriefWritten) else brief
        for name, data in converter.take(record.envelope, record.event):
            if name == "thought_step":
                say(_progress(data))
            elif name == "error":
                say(f"It failed: {data['message']}")
            ended = data if name == "done" else ended
    if as_json:
        json_line(_last_line(brief, ended, item))
    elif brief is not None:
        say_result("\n".join(brief_lines(brief)))
        say(
            f"{ended['seconds']:.1f} s, {_usd(ended['cost_usd'])} USD. To show it again: {command_name()} investigate --follow {item.chat_id}"
        )
    return exits.OK if brief is not None else exits.FINDING


def _progress(data: dict[str, Any]) -> str:
    seconds = data["duration_ms"] / 1000
    did, observed = _cut(data["action"], 110), _cut(data["observation"], 160)
    return f"  {seconds:6.1f} s  {data['phase']:<13} {did}: {observed}"


def _cut(text: str, most: int) -> str:
    """Return the text's first ``most`` characters at most, cut between words where there are any."""
    if len(text) <= most:
        return text
    return (text[:most].rpartition(" ")[0] or text[:most]).rstrip(" ;,") + " …"


def _last_line(brief: BriefWritten | None, ended: dict[str, Any], item: TurnItem) -> dict[str, Any]:
    from newsproof.report.brief import brief_document

    return {
        "status": (brief.path if brief else ended.get("state", "failed")),
        "subtasks": len(brief.questions) if brief else 0,
        "rounds": brief.rounds if brief else 0,
        "references": len(brief.references) if brief else 0,
        "new_since": [_change(brief, n) for n in range(len(brief.new_since))] if brief else [],
        "cost_usd": _usd(ended.get("cost_usd")),
        "seconds": ended.get("seconds", 0.0),
        "brief": brief_document(brief) if brief else None,
        "investigation_id": item.chat_id,
    }


def _change(brief: BriefWritten, place: int) -> dict[str, Any]:
    from newsproof.report.brief import change_in_words

    change = brief.new_since[place]
    words = change_in_words(brief, change, zh=brief.language == "zh")
    return {"kind": change.kind, "text": words, "references": change.references, "testable": change.testable}


def _usd(cost: Any) -> float | None:
    return None if cost is None else float(cost)


def _moment(text: str) -> datetime:
    at = parse_time("--as-of", text)
    # A day means its end.
    return at.replace(hour=23, minute=59, second=59) if len(text) == len("2026-01-27") else at


AsJson = Annotated[bool, json_flag("Print JSON, one watch per line.")]
Which = Annotated[str, argument("Watch id or a prefix of it, from `watches list`.", metavar="ID")]
watches = typer.Typer(cls=ListGroup, help="List, pause, resume and end watches. Without a command: `list`.")
app.add_typer(watches, name="watches")


@command(app)
async def watch(
    invocation: Invocation,
    subject: Annotated[str, argument("Subject to research, such as “DeepSeek” or 关注DeepSeek的最新进展.")],
    every: Annotated[str | None, option("Interval, such as 45m, 6h or 1d. At least 30m.", metavar="TIME")] = None,
    on_news: Annotated[
        bool, option("Run when news on the subject arrives, at most every 30 minutes.", "--on-news")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Research a subject now and repeatedly: at an interval, or when news on it arrives.

    New, testable results are published as news (source watch:SUBJECT) and verified like all news. A watch runs at most
    WATCH_DAILY_LIMIT times per UTC day, and only while `newsproof up` runs.
    """
    from newsproof.app.watches import watch_of
    from schemas.errors import ConfigError, ContractError

    try:
        asked = watch_of(subject, every, on_news=on_news, by="cli")
    except ContractError as exc:
        raise ConfigError(f"{exc}; `newsproof watch --help` shows how") from exc
    _print_watch(await _with_book(invocation, lambda book: book.set(asked)), as_json=as_json)


@command(watches, "list")
async def list_watches(invocation: Invocation, as_json: AsJson = False) -> None:
    """List watches with their state, last run, next run and last result."""
    views = await _with_book(invocation, lambda book: book.views())
    if not views and not as_json:
        return say_result('No watches. `newsproof watch "DeepSeek" --every 6h` creates one.')
    columns: Columns = {
        "id": lambda watch: watch.id[:8],
        "subject": "subject",
        "state": "state",
        "comes again": _schedule,
        "fired": "fired",
        "last fired": lambda watch: _time(watch.last_fired_at),
        "next due": lambda watch: _time(watch.next_due_at),
        "last result": _result,
    }
    Sheet.of(views, columns).show(as_json=as_json)
    for view in views if not as_json else ():
        if view.note:
            say_result(f"{view.id[:8]} {view.note}.")


@command(watches)
async def pause(invocation: Invocation, id: Which, as_json: AsJson = False) -> None:
    """Pause a watch until you resume it."""
    await _change_watch(invocation, id, "pause", as_json=as_json)


@command(watches)
async def resume(invocation: Invocation, id: Which, as_json: AsJson = False) -> None:
    """Resume a paused watch from its next scheduled time. Missed runs are not repeated."""
    await _change_watch(invocation, id, "resume", as_json=as_json)


@command(watches)
async def end(invocation: Invocation, id: Which, as_json: AsJson = False) -> None:
    """End a watch permanently. A running investigation still finishes."""
    await _change_watch(invocation, id, "end", as_json=as_json)


async def _change_watch(invocation: Invocation, id: str, change: str, *, as_json: bool) -> None:
    _print_watch(await _with_book(invocation, lambda book: book.change(id, change, by="cli")), as_json=as_json)


async def _with_book(invocation: Invocation, work: Any) -> Any:
    from infra.kafka.topics import ensure_topics
    from newsproof.app.data_access import open_log
    from newsproof.app.servers import say_on_stderr
    from newsproof.app.watches import WatchBook

    log: LogAccess
    async with open_log(invocation) as log:
        at = log.settings
        await ensure_topics(log.address, log.topics, partitions=at.topic_partitions, replication=at.topic_replication)
        if log.own:
            say_on_stderr("Kafka was not running. Watches run only while `newsproof up` runs.")
        book: WatchBook = WatchBook(log.address, log.topics, daily_limit=at.watch_daily_limit)
        return await work(book)


def _print_watch(view: WatchView, *, as_json: bool) -> None:
    if as_json:
        json_line(view)
        return
    due = f"; next due {_time(view.next_due_at)}" if view.next_due_at else ""
    state = "has ended" if view.state == "ended" else f"is {view.state}"
    say_result(f"{view.id} {state}: “{view.subject}”, {_schedule(view)}{due}")


def _result(watch: WatchView) -> str | None:
    result = watch.last_result
    return None if result is None else result.state if result.new is None else f"{result.state}, {result.new} new"


def _schedule(view: WatchView) -> str:
    return "on news" if view.every_s is None else f"every {span_name(view.every_s)}"


def _time(at: Any) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d %H:%M}Z"
