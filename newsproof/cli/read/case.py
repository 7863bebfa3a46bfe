"""``newsproof case``: finds a case, and prints its timeline or replays it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from agents.text.wording import Language, Text, fill, joined, term
from infra.kafka.topics import KafkaAddress
from newsproof.app.data_access import log_to_read
from newsproof.app.invocation import Invocation
from newsproof.app.sheet import SECOND, Columns, Unit, console, json_line, json_lines, moment, money, say_result, table
from newsproof.cli.options import JsonLines, JsonObject, Lang, ShowGroup, argument, command, commands, option
from newsproof.cli.read.signals import reader_language
from newsproof.report import narrative
from newsproof.report.case_document import CaseDocument, document_of
from newsproof.report.recorded_reasons import translate_reason
from newsproof.report.signals import (
    action_in_words,
    asset_in_words,
    calibration_in_words,
    print_in,
    stage_in_words,
    verdict_in_words,
)
from schemas.errors import ConfigError
from schemas.events import Event, EventReceived, EvidenceCritiqued, SignalSynthesized
from schemas.printable import Count, counted, shortened
from schemas.signals import WITHDRAWN, Signal
from schemas.topics import Topics
from streams.journal.case_reading import CaseRow, JournalRecord, named_by, read_case, read_cases, read_signals
from streams.journal.log import KafkaLog

if TYPE_CHECKING:
    from agents.core.registry import Registry
    from evaluation.replay.journal import Source
    from streams.replay import Recording, ReplayResult

app = commands()
case = typer.Typer(
    cls=ShowGroup, help="Show the timeline of a case (`case ID`), or replay the case.", no_args_is_help=True
)
app.add_typer(case, name="case")
Id = Annotated[str, argument("Case id, a prefix of it, or the news item's own id (h09).", metavar="ID")]


@command(case, "show", late_logs=True)
async def show_case(
    invocation: Invocation,
    id: Id,
    as_json: JsonObject = False,
    events: Annotated[bool, option("Print the raw records, one JSON object per line.", "--events")] = False,
    lang: Lang = None,
) -> None:
    """Show the timeline of a case.

    Shows its events, the reasons, the evidence, each change of confidence, and every call with its cost.
    """
    async with log_to_read(invocation) as log:
        case_id = await find_case(log.address, log.topics, id)
        records = await read_case(KafkaLog(log.address), log.topics, case_id)
        published = [] if events else await read_signals(KafkaLog(log.address), log.topics)
    revisions = [signal for signal, _ in published if signal.case_id == case_id]
    if events:
        json_lines(records)
    elif as_json:
        json_line(document_of(records, revisions))
    else:
        print_case(records, revisions, language=reader_language(lang))


@command(case, "replay")
async def replay_case(
    invocation: Invocation,
    id: Id,
    prompt: Annotated[
        list[str] | None, option("Prompt to test: NAME=VERSION (synthesize=v4) or NAME=FILE.md.", metavar="NAME=…")
    ] = None,
    from_step: Annotated[
        str | None, option("Repeat the model calls from this step on. Earlier steps stay as recorded.")
    ] = None,
    max_cost: Annotated[float, option("Maximum cost in USD.", min=0)] = 1.0,
    sample_log: Annotated[bool, option("Replay a case of the bundled sample log.", "--sample-log")] = False,
    as_json: JsonLines = False,
) -> None:
    """Replay one case, and show both signals side by side.

    Change a prompt (--prompt), or repeat the model calls from one step on (--from-step).

    Raises:
        ConfigError: the case, step or prompt does not exist, or the case has not ended; the text lists what exists.
    """
    from agents.graphs import verification
    from evaluation.replay.candidates import ReplayBuilder, candidate_prompts, refuse_offline
    from evaluation.replay.journal import FileSource, LogSource
    from evaluation.replay.log_file import read_log_file
    from evaluation.runs.backtest import log_and_tables, model_ports
    from evaluation.runs.performer import AsOfMemory, CostLimit, CostLimitReached, Performer, replay_one
    from evaluation.runs.topic import RunProgress
    from streams.replay import Change

    change = Change(prompts=candidate_prompts(invocation.settings(), prompt or ()))
    refuse_offline(invocation.settings(), change.prompts)
    graph = verification()
    if from_step is not None and from_step not in graph.steps:
        raise ConfigError(f"there is no step {from_step!r}: write one of {', '.join(graph.steps)}")
    async with log_and_tables(invocation, reads_log=not sample_log) as (log, tables):
        source: Source = (
            FileSource(read_log_file()) if sample_log else await LogSource.made(KafkaLog(log.address), log.topics)
        )
        recording = await find_recording(source, id)
        _refuse(recording, source, from_step, graph)
        ports = model_ports(log.settings, tables)
        limit, memory = CostLimit(Decimal(str(max_cost))), AsOfMemory(tables, mode=log.settings.mode)
        performer = Performer(ports, limit, RunProgress(), None, on_miss="fail", memory=memory)
        try:
            builder = ReplayBuilder(graph, source.snapshots, change)
            replayed = await replay_one(builder, recording, performer, from_step)
        except CostLimitReached:
            raise ConfigError(f"--max-cost {max_cost:g} does not cover the next call: give a larger one") from None
        finally:
            await ports.close()
    json_line(replay_document(recording, replayed)) if as_json else _print_replay(recording, replayed)


async def find_case(address: KafkaAddress, topics: Topics, wanted: str) -> str:
    """Return the id of the case that is named by its id, an unambiguous prefix of it, or the news's external id.

    Raises:
        ConfigError: no case or several cases match; the text lists candidates.
    """
    cases = await read_cases(KafkaLog(address), topics)
    if matches := named_by(cases, wanted):
        return _only(matches, wanted)
    known = ", ".join(sorted({c.external_id or c.case_id[:8] for c in cases})[:12]) or "none at all"
    raise ConfigError(
        f"no case is called {wanted!r}: give a case id, at least 4 of its first characters, or the news's external id "
        "(the demo's cases: --data-dir .data/demo). "
        f"This log knows {counted(len(cases), 'case')}: {known}{' …' if len(cases) > 12 else ''}. `newsproof cases` lists them"
    )


def _only(matches: Sequence[CaseRow], wanted: str) -> str:
    if len(matches) == 1:
        return matches[0].case_id
    listed = "; ".join(f"{c.case_id} ({c.source}, {shortened(c.text, 40)})" for c in matches[:8])
    raise ConfigError(f"{counted(len(matches), 'case')} are called {wanted!r}, give one case id: {listed}")


def print_case(
    records: Sequence[JournalRecord], revisions: Sequence[Signal] = (), *, language: Language = "en"
) -> None:
    """Print the case on standard output. ``revisions``: of its signal as published, the last being the current one."""
    document = document_of(records, revisions)
    took = (records[-1].envelope.time - records[0].envelope.time).total_seconds()
    extent = fill("{n:record|records} in {took:.2f} s", "{n} 条记录，用时 {took:.2f} 秒", n=len(records), took=took)
    _print_news(document, extent.of(language), language)
    _say(f"{document.sentence.of(language)}\n")
    if revisions and (last := revisions[-1]).stage in WITHDRAWN:
        # First, because everything below is about a signal that is no longer active.
        heading = fill(
            "{stage} at {at:%Y-%m-%d %H:%M:%S} UTC: {action} {sure:.2f} ({verdict}); below, what came before.\n",
            "{stage}，{at:%Y-%m-%d %H:%M:%S} UTC：{action} {sure:.2f}（{verdict}）；以下是此前的经过。\n",
            stage=Text(last.stage.capitalize(), term(last.stage).zh), at=last.decided_at, sure=last.confidence,
            action=action_in_words(last), verdict=verdict_in_words(last),
        )  # fmt: skip
        _say(heading.of(language))
    timeline: Columns = {
        "after": ("after_s", Unit(_after)),
        "phase": lambda line: term(line.phase),
        "what happened": lambda line: Text(line.what, line.what_zh),
        "why": lambda line: Text(line.thought, line.thought_zh),
    }
    print_in(language, document.timeline, timeline, title=Text("What happened", "经过"))
    _print_evidence(document, language)
    _print_critique(document.critique, language)
    _print_signal(document, revisions, language)
    _print_revisions(revisions, language)
    _print_calls(document.calls, language)
    if document.passed_by:
        passed: Columns = {
            "offset": "offset",
            "appended": "appended_at",
            "event": lambda record: record.envelope.type,
            "cause": lambda record: record.envelope.causation_id,
        }
        title = Text(
            "Ignored records (late or duplicate responses that changed nothing)",
            "略过的记录（迟到或重复的回答，没有改变什么）",
        )
        print_in(language, document.passed_by, passed, title=title)


def _after(seconds: float) -> str:
    return f"+{seconds:.2f} s" if seconds < 60 else f"+{seconds / 60:.1f} min"


def _say(text: str = "") -> None:
    console().print(text)


def _print_news(document: CaseDocument, extent: str, language: Language) -> None:
    _say(fill("Case {id}", "案例 {id}", id=document.case_id).of(language))
    if (news := document.news) is None:
        return _say(extent)
    published = fill("published {at:%Y-%m-%d %H:%M} UTC", "发布于 {at:%Y-%m-%d %H:%M} UTC", at=news.published_at)
    known = [news.source, news.external_id, published.of(language), extent]
    _say(" · ".join(k for k in known if k))
    _say(f"\n  {news.text}\n")
    if claims := document.claims:
        heading = fill(
            "It makes {n} claims, each with a case: {each}.\n", "它包含 {n} 个说法，各有一个案例：{each}。\n", n=len(claims),
            each=joined(f"{asset} {case[:8]}" for asset, case in claims.items()),
        )  # fmt: skip
        _say(heading.of(language))


def _print_evidence(document: CaseDocument, language: Language) -> None:
    findings, critique, pages = document.findings, document.critique, document.pages
    if findings is None:
        return
    judged, title = list(zip(findings.references, pages, strict=True)), narrative.findings_in_words(findings)
    by_critic = bool(critique and critique.stances)
    evidence: Columns = {
        "#": lambda pair: pair[0].reference_number,
        "says": lambda pair: narrative.stance_in_words(pair[1], critic=by_critic),
        "title": lambda pair: f"{pair[0].registrable_domain}\n{pair[0].title}".strip(),
        "published": lambda pair: moment(pair[0].published_at, "day") or "–",
        "official": lambda pair: (pair[0].speaker or term("yes")) if pair[0].official else "",
        "independent": lambda pair: term("yes") if pair[0].independent else "",
        "credibility": lambda pair: term(pair[0].source_credibility),
    }
    if judged:
        print_in(language, judged, evidence, title=fill("Evidence: {words}", "证据：{words}", words=title))
    else:
        title = joined((Text("none", "无"), narrative.NO_PAGES), ". ", "。")
        _say(f"{fill('Evidence: {words}', '证据：{words}', words=title).of(language)}\n")
    if critique is not None and critique.stances is not None:
        read: Columns = {
            "#": lambda pair: pair[1].reference_number,
            "says": lambda pair: term(pair[1].stance),
            "who speaks": lambda pair: narrative.speaker_in_words(pair[0], pair[1].said),
            "in these words": lambda pair: (pair[1].said and pair[1].said.quote) or "",
            "why": lambda pair: narrative.doubts_in_words(pair[1]),
        }
        print_in(
            language, judged, read, title=Text("What each page says, as the critic read it", "核查模型读到的各网页内容")
        )
    if critique is not None and judged:
        _say(f"{narrative.readers_in_words(critique).of(language)}\n")
    if findings.dropped:
        dropped: Columns = {"why not": "reason", "address": "url", "title": "title"}
        print_in(language, findings.dropped, dropped, title=Text("Results that were not used", "未采用的结果"))


def _print_critique(critique: EvidenceCritiqued | None, language: Language) -> None:
    if critique is not None and critique.claims:
        columns: Columns = {
            "claim": "claim",
            "verdict": lambda claim: narrative.CRITIC_SAYS[claim.verdict],
            "reliability": "reliability",
            "says so": lambda claim: " ".join(f"[{n}]" for n in claim.reference_numbers),
            "reason": "reason",
        }
        print_in(language, critique.claims, columns, title=Text("Critique, claim by claim", "逐条核查"))


def _print_signal(document: CaseDocument, revisions: Sequence[Signal], language: Language) -> None:
    if document.signal is None or document.confidence is None:
        return
    columns: Columns = {
        "rule": lambda step: Text(step.rule, term(step.rule).zh),
        "change": ("amount", Unit(lambda amount: "" if amount is None else f"{amount:+.2f}")),
        "confidence": ("confidence", ".2f"),
        "reason": lambda step: Text(step.reason, step.reason_zh),
    }
    print_in(language, document.confidence, columns, title=Text("How the confidence came about", "置信度是怎样得出的"))
    s = revisions[-1] if revisions else document.signal
    words = fill(
        "Signal {id}: {action} {asset} ({direction}, {strength}, {timeframe}), {sure:.2f}; {stage}, {verdict}\n  {sources}\n"
        "  valid until {until:%Y-%m-%d %H:%M} UTC · flags: {flags} · judged by {by}",
        "信号 {id}：{action} {asset}（{direction}，{strength}，{timeframe}），{sure:.2f}；{stage}，{verdict}\n  {sources}\n"
        "  有效期至 {until:%Y-%m-%d %H:%M} UTC · 标记：{flags} · 由 {by} 判断",
        id=s.signal_id, action=action_in_words(s), asset=asset_in_words(s.asset), direction=term(s.direction),
        strength=term(s.strength), timeframe=term(f"{s.timeframe}_term"), sure=s.confidence, stage=stage_in_words(s.stage),
        verdict=verdict_in_words(s), until=s.valid_until,
        sources=narrative.sources_in_words(s), flags=" ".join(s.risk_flags) or term("none"), by=s.model or Text("rules", "规则"),
    )  # fmt: skip
    _say(words.of(language))
    if (calibration := calibration_in_words(s)) is not None:
        _say(fill("  calibrated: {of}", "  校准后的概率：{of}", of=calibration).of(language))
    for link in s.links:
        _say(f"  {link}")
    _say()


def _print_revisions(revisions: Sequence[Signal], language: Language) -> None:
    if len(revisions) < 2:
        return
    columns: Columns = {
        "revision": "revision",
        "stage": lambda signal: stage_in_words(signal.stage),
        "verdict": verdict_in_words,
        "action": action_in_words,
        "confidence": ("confidence", ".2f"),
        "decided (UTC)": ("decided_at", SECOND),
    }
    print_in(
        language, revisions, columns, title=Text("Revisions of the signal, as published", "信号的修订，按发布顺序")
    )
    for s in revisions:
        _say(f"  {s.revision}: {translate_reason(s.notes).of(language)}")
    _say()


def _print_calls(calls: Sequence[narrative.CaseCall], language: Language) -> None:
    columns: Columns = {
        "call": lambda call: Text(call.kind, term(call.kind).zh),
        "by": lambda call: call.model or call.provider,
        "mode": lambda call: term(call.mode),
        "prompt": lambda call: f"{call.prompt_name} v{call.prompt_version}" if call.prompt_name else "",
        "ms": ("latency_ms", ".0f"),
        "tokens": (lambda call: call.usage_input_tokens + call.usage_output_tokens, Unit(lambda n: str(n or ""))),
        "USD": ("cost_usd", Unit(money)),
        "error": lambda call: call.error or ("" if call.accepted else "in an ignored record"),
    }
    costs = [call.cost_usd for call in calls]
    known = sum(c for c in costs if c is not None)
    title = fill("{n:call|calls}, {known:.5f} USD", "{n} 次调用，{known:.5f} 美元", n=len(calls), known=known)
    if None in costs:
        n = costs.count(None)
        title = joined((title, fill("{n:call|calls} of unknown price", "{n} 次调用价格未知", n=n)))
    print_in(language, calls, columns, title=title)


LEFT_OUT = frozenset({"schema_version", "signal_id", "case_id", "revision", "supersedes"})
"""Fields left out of the comparison of a replay: they identify the signal rather than describe it."""


async def find_recording(source: Source, wanted: str) -> Recording:
    """Return the ended case with this id, this unambiguous id prefix (at least 4 characters), or this news id.

    Raises:
        ConfigError: no case or several cases match.
    """
    from evaluation.replay.journal import recordings, survey

    ended = (await survey(source)).ended
    exact = frozenset(c for c in ended if len(wanted) >= 4 and c.startswith(wanted.lower()))
    matches: list[Recording] = []
    async for recording in recordings(source, (lambda _id: True) if not exact else exact.__contains__):
        opening = recording.received
        named = isinstance(opening, EventReceived) and opening.part is None and opening.news.external_id == wanted
        if exact or named:
            matches.append(recording)
    if len(matches) == 1:
        return matches[0]
    some = ", ".join(r.case_id for r in matches[:5])
    how = (
        f" ({some}): name one case id" if matches else ": `newsproof cases` lists them; an open case cannot be replayed"
    )
    raise ConfigError(f"{len(matches)} ended cases match {wanted!r}{how}")


def _refuse(recording: Recording, source: Source, from_step: str | None, graph: Registry) -> None:
    if recording.unreadable:
        raise ConfigError(f"case {recording.case_id} cannot be replayed: {recording.unreadable}")
    if recording.received.config_hash not in source.snapshots:
        raise ConfigError(
            f"case {recording.case_id} cannot be replayed: its configuration {recording.received.config_hash} "
            "is not on the configs topic"
        )
    if from_step is None:
        return
    came = [s.name for r in recording.records if (s := graph.step_after(r.event)) is not None]
    if from_step not in came:
        passed = ", ".join(dict.fromkeys(came))
        raise ConfigError(f"case {recording.case_id} never reached {from_step}; it went through {passed}")


def replay_document(recording: Recording, replayed: ReplayResult) -> dict[str, Any]:
    return {
        "case_id": recording.case_id,
        "status": replayed.status,
        "reason": replayed.reason,
        "recorded": _end(recording.end),
        "replayed": _end(replayed.end),
        "executed": replayed.count("executed"),
        "reused": replayed.count("reused"),
        "missed": replayed.count("miss"),
        "cost_usd": _cost(replayed),
    }


def _end(end: Event | None) -> Any:
    if end is None:
        return None
    return msgspec.to_builtins(
        end.signal if isinstance(end, SignalSynthesized) else msgspec.structs.replace(end, calls=())
    )


def _cost(replayed: ReplayResult) -> Decimal | None:
    from evaluation.runs.run_tables import total_cost

    return total_cost(c for u in replayed.used if u.execution == "executed" for c in u.calls)


def _print_replay(recording: Recording, replayed: ReplayResult) -> None:
    say_result(f"Case {recording.case_id}: {recording.received.news.text[:100]}")
    steps = ", ".join(dict.fromkeys(u.step for u in replayed.used if u.execution == "executed")) or "nothing"
    say_result(
        f"Called again: {steps} ({counted(replayed.count('executed'), 'call')}, {money(_cost(replayed))} USD); "
        f"{Count(replayed.count('reused')):reply|replies} reused"
    )
    if replayed.status != "replayed":
        say_result(f"It was not replayed to the end ({replayed.status}): {replayed.reason}")
        return
    before, after = _end(recording.end), _end(replayed.end)
    names = [n for n in dict.fromkeys([*before, *after]) if n not in LEFT_OUT]
    rows = [
        ("" if before.get(n) == after.get(n) else "≠", n, _shown(before.get(n)), _shown(after.get(n))) for n in names
    ]
    changed = sum(1 for row in rows if row[0])
    title = "Nothing differs" if not changed else f"{changed} fields differ"
    table(("", "field", "recorded", "replayed"), rows, title=title)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)}: " + "; ".join(_short(v) for v in value) if value else "–"
    return "–" if value is None else f"{value}"


def _short(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    kept = [n for n in ("rule", "amount", "name", "version", "stance", "url") if n in value]
    return " ".join(str(value[n]) for n in kept)
