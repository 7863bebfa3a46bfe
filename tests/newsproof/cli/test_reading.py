"""`newsproof signals`, `cases` and `case`: what a reader sees of a signal, of how it stands now, and of what was read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from agents.text.wording import Language
from newsproof.app.data_access import LogToRead
from newsproof.app.invocation import Invocation
from newsproof.cli.read import signals as reading
from newsproof.cli.read.case import print_case
from newsproof.cli.read.signals import signals, since_when
from newsproof.report.signals import signal_lines
from schemas import events as ev
from schemas.calibration import SignalCalibration
from schemas.errors import ConfigError
from schemas.evidence import PageStance
from schemas.ids import signal_id
from schemas.news import News
from schemas.signals import MessagePart, Signal
from tests.newsproof.command import NOT_FOR_A_READER, imported_by, newsproof, on_log
from tests.newsproof.report.test_narrative import FOUND, record, reference
from tests.newsproof.signal_samples import signal, write_signals
from tests.streams.records import TRIAGED, after, opening, write
from tests.streams.world import World

NOW = datetime(2026, 3, 8, tzinfo=UTC)


def test_since_is_a_time_or_so_long_ago() -> None:
    times = {"7d": 1, "24h": 7, "1440m": 7, "2026-03-01": 1, "2026-03-01T01:00:00+01:00": 1}
    assert {one: since_when(one, now=NOW) for one in times} == {
        one: datetime(2026, 3, day, tzinfo=UTC) for one, day in times.items()
    }
    for one in ("", "d", "2w", "soon", "99999999999d"):
        with pytest.raises(ConfigError, match="write 30m, 2h, 3d, or"):
            since_when(one, now=NOW)


def test_a_signal_is_one_line_with_its_time_that_fits_a_terminal() -> None:
    long = "币安宣布上线一种新的代币并开放充值，交易对包括美元和欧元" * 3
    names = {"claim_zh": long, "claim_en": f"Binance “lists” {long}"}
    signals = [
        signal("a", decided_at=NOW - timedelta(hours=23), **names),
        signal("b", decided_at=NOW - timedelta(days=1), asset="VERYLONGTICKER", stage="superseded", **names),
        signal("\x1b[2J" + "x" * 99, decided_at=NOW, action="observe", verdict="unconfirmed", asset="UNKNOWN"),
    ]
    ids = {signals[0].case_id: "h09", signals[1].case_id: "an id of many characters"}
    for language in get_args(Language):
        lines = signal_lines(signals, ids, now=NOW, language=language, width=80)
        assert [line.split()[0] for line in lines] == ["01:00:00", "2026-03-07", "00:00:00"]
        assert [line.split()[1] for line in lines] == ["h09", signals[1].case_id[:8], signals[2].case_id[:8]]
        assert all(60 < cell_len(line) <= 80 and line.endswith("…") for line in lines), lines
        assert len({cell_len(line[: line.index(" 0.")]) for line in lines[::2]}) == 1, "columns are below each other"
        assert (" 偏空 " if language == "zh" else " leans short ") in lines[2]


STANCES = (
    PageStance(reference_number=1, stance="supports", quote="we were attacked", speaks_for="party"),
    PageStance(reference_number=2, stance="denies", quote="nothing of this is true", cites="Reuters"),
)
PAGES = (reference(1, official=True, speaker="Ronin"), reference(2))


async def case_of(world: World, number: int, critique: ev.EvidenceCritiqued, **changes: object) -> str:
    """Write a case that ends with a signal of these fields, and publish it; return the case's id."""
    case, head, value, headers = opening(number)
    await write(world, case, value, headers)
    ended = signal(f"story {number}", case_id=case, signal_id=signal_id("live", case), **changes)
    found = ev.SearchCompleted(round=1, findings=replace(FOUND, references=PAGES), outcomes=(), route="critique")
    for event in (TRIAGED, found, critique, ev.SignalSynthesized(signal=ended, path="deep")):
        head, value, headers = after(case, head, event)
        await write(world, case, value, headers)
    await write_signals(world.address, world.topics, ended)
    if number == 1:
        gone = replace(ended, revision=2, stage="retracted", verdict="refuted", action="observe", direction="neutral")
        await write_signals(world.address, world.topics, replace(gone, confidence=0.0))
    return case


async def test_who_follows_sees_signals_in_the_order_of_their_publication(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def opened(_: Invocation) -> AsyncIterator[LogToRead]:
        yield LogToRead(address=world.address, topics=world.topics, own=False)

    async def shown(limit: int | None, count: int, *later: Signal) -> list[str]:
        told: asyncio.Queue[Signal] = asyncio.Queue()
        monkeypatch.setattr(reading, "json_line", told.put_nowait)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(signals(Invocation(), follow=True, asset=["btc"], limit=limit, as_json=True))
            found = [await told.get() for _ in range(count)]
            await write_signals(world.address, world.topics, *later)
            found += [await told.get() for _ in later]
            following.cancel()
        return [one.summary for one in found]

    monkeypatch.setattr(reading, "log_to_read", opened)
    names = [f"story {number}" for number in range(8)]
    for name in names:
        await write_signals(world.address, world.topics, signal(name), signal(f"not {name}", asset="ETH"))
    assert await shown(None, 8) == names
    assert await shown(2, 2, signal("new")) == [*names[-2:], "new"]


@pytest.mark.slow
async def test_a_reader_sees_verdicts_quotes_and_how_a_signal_stands_now(world: World, tmp_path: Path) -> None:
    critique = ev.EvidenceCritiqued(claims=(), verdict="supported", stances=STANCES, unquoted=(2,))
    alone = ev.EvidenceCritiqued(claims=(), verdict="not_enough_evidence")
    retracted = await case_of(world, 1, critique, supporting_sources=2, summary_zh="中文", summary_en="English")
    unchecked = {"verdict": "unchecked", "unchecked_reason": "budget", "action": "observe", "direction": "long"}
    doubted = await case_of(world, 2, alone, **unchecked)
    env = on_log(world.address, world.topics) | {"LC_ALL": "zh_CN.UTF-8"}

    def run(*arguments: str) -> str:
        done = newsproof(*arguments, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = run("signals").splitlines()
    assert lines[0] == "2 个信号中的 2 个，时间为 UTC" and len(lines) == 3
    assert {"已撤回", "未核查"} <= set(" ".join(lines).split())
    listed = run("signals", "--wide")
    for words in (
        "已撤回，不实",
        "未核查（预算不足）",
        "观望 · 做多",
        "置信度",
        "支持信源：",
        "2 个信号中的 2 个",
        "中文",
    ):
        assert words in listed
    assert "English" in run("signals", "--wide", "--lang", "en")
    for option, value, case in (("--verdict", "unchecked", doubted), ("--stage", "retracted", retracted)):
        assert [json.loads(line)["case_id"] for line in run("signals", "--json", option, value).splitlines()] == [case]
    assert len(run("signals", "--json", "--limit", "1").splitlines()) == 1
    assert len(run("signals", "--json", "--since", "2001-01-01").splitlines()) == 2
    assert run("signals", "--json", "--since", "9999-01-01") == ""
    rows = {row["case_id"]: row["end"] for row in map(json.loads, run("cases", "--json").splitlines())}
    assert rows == {retracted: "observe 0.00 (retracted, refuted)", doubted: "observe 0.80 (unchecked)"}
    told = run("case", retracted)
    for words in (
        "案例 ",
        "已撤回，",
        "以下是此前的经过",
        "核查模型读到的各网页内容",
        "置信度是怎样得出的",
        "次调用",
        "有效期至",
    ):
        assert words in told, words
    for heading in ("what happened", "domain", "in these words", "change", "revision", "tokens"):
        assert heading not in told, heading
    told = run("case", retracted, "--lang", "en")
    assert told.index("; below, what came before.") < told.index("What happened")
    assert "Retracted at 20" in told and " UTC: observe 0.00 (refuted); below" in told
    assert "below, what came before" not in run("case", doubted, "--lang", "en")
    for words in (
        *("we were attacked", "Ronin, the party", "citing Reuters", "read as “denies”; its quote is not on the page"),
        *("Ronin", "Its quote from [2] is not on the page", "observe BTC (neutral", "0.00; retracted, refuted"),
        *("2 supporting, 3 independent sources", "Revisions of the signal, as published", "English"),
    ):
        assert words in told, words
    narrow = newsproof("case", retracted, cwd=tmp_path, env={**env, "COLUMNS": ""}).stdout
    assert max(map(cell_len, narrow.splitlines())) <= 100
    told = run("case", doubted, "--lang", "en")
    assert (
        "No critic read the pages; only the word rules classified them." in told and "What each page says" not in told
    )
    assert len(run("cases").splitlines()) == 3 and " observe 0.00 (retracted," in run("cases")
    assert "events" in run("cases", "--wide")


def test_a_case_names_the_cases_of_its_message_and_says_when_no_page_was_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    part = MessagePart(first_case="first-case", asset="ETH", assets=("ETH", "BTC"), text="both are listed")
    news = News(source="wire", text="both are listed", published_at=NOW)
    none = ev.SearchCompleted(round=1, findings=replace(FOUND, references=()), outcomes=(), route="critique")
    events = (
        ev.EventReceived(news=news, config_hash="h", text_hash="t", language="en", part=part),
        none,
        ev.EvidenceCritiqued(claims=(), verdict="not_enough_evidence"),
    )
    print_case([record(event, n) for n, event in enumerate(events)])
    told = capsys.readouterr().out
    assert f"It makes 2 claims, each with a case: ETH first-ca, BTC {part.cases['BTC'][:8]}." in told
    assert "Evidence: none. No page was found that a critic could read." in told and "No critic read" not in told


@pytest.mark.parametrize(
    ("language", "words", "stands"),
    [
        ("en", "calibrated: the price moves over 10 bp in its direction within 24 h: 0.58 (95 % interval 0.51–0.65, from 212 stories)",
         " · the claim still holds after 14 days: 0.81"),
        ("zh", "校准后的概率：24 小时内价格朝信号方向波动超过 10 个基点：0.58（95% 区间 0.51–0.65，依据 212 个事件）",
         " · 14 天后消息仍然成立：0.81"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("p_true", [0.81, None])
def test_a_case_says_how_often_signals_like_it_came_true(
    language: Language, words: str, stands: str, p_true: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    said = SignalCalibration(
        id="m", method="platt_identity_prior", target="moved:86400", n_stories=212, low=0.51, high=0.65, p_true=p_true
    )
    news = News(source="wire", text="both are listed", published_at=NOW)
    opened = ev.EventReceived(news=news, config_hash="h", text_hash="t", language="en")

    def told(of: Signal) -> str:
        print_case(
            [record(e, n) for n, e in enumerate((opened, TRIAGED, ev.SignalSynthesized(signal=of, path="deep")))],
            language=language,
        )
        return "".join(capsys.readouterr().out.split())  # a long line is wrapped

    calibrated = signal("a", confidence_calibrated=0.58, calibration=said)
    shown, stands = told(calibrated), "".join(stands.split())
    assert "".join(words.split()) + (stands if p_true else "") in shown and (stands in shown) is bool(p_true)
    for plain in (signal("a"), signal("a", calibration=None)):
        assert words[:5] not in told(plain)


ITS_OWN = {
    "sources": {"pydantic_settings"},  # which keys the sources need is in all settings
    "sources show solana-status": {"pydantic_settings"},
    "sources reputation": {"requests", "tldextract"},  # whose site a page is of
}


@pytest.mark.slow
async def test_a_command_that_reads_imports_only_what_it_uses(world: World, tmp_path: Path) -> None:
    critique = ev.EvidenceCritiqued(claims=(), verdict="supported", stances=STANCES, unquoted=(2,))
    case = await case_of(world, 1, critique, supporting_sources=2)
    env = on_log(world.address, world.topics)
    plain = ("signals", "signals --json", "cases", f"case {case}", f"case {case} --json", "budget", "dlq")
    for command in (*plain, *ITS_OWN):
        imported = imported_by(*command.split(), cwd=tmp_path, env=env)
        assert "aiokafka" in imported
        assert imported & set(NOT_FOR_A_READER) <= ITS_OWN.get(command, set()), command
    helped = imported_by("signals", "--help", cwd=tmp_path, env=env)
    assert not helped & set(NOT_FOR_A_READER)
