"""``newsproof report``: the figures are those of the views, in the terminal and on a page that loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lxml import html as parser  # type: ignore[import-untyped]

from infra.clickhouse.client import ClickHouse
from newsproof.app import exits
from newsproof.report.data import QUESTIONS, Report, by_day, read_report, usd
from newsproof.report.demo import print_audit
from newsproof.report.page import page_of
from newsproof.report.terminal import print_report_of
from schemas import events as ev
from streams.audit.audit import AuditReport
from streams.audit.signals import FaultySignal
from tests.infra.clickhouse.clickhouse_samples import (
    fill,
    fill_signals,
    model_call,
    published,
    record,
    signal,
)
from tests.infra.clickhouse.test_questions import the_set
from tests.newsproof.command import newsproof

pytest_plugins = ["tests.infra.embedded.clickhouse_engine"]

HOSTILE = "<svg onload=alert(1)>"
AT = "2026-03-01 12:00 UTC"


@pytest.fixture
async def report(clickhouse: ClickHouse) -> Report:
    """Of the ten questions' set, whose answers tests/infra/clickhouse/test_questions.py works out by hand."""
    await the_set(clickhouse)
    return await read_report(clickhouse, run_id="live")


def test_the_terminal_shows_cost_latency_confidence_and_calibration(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report_of(report)
    said = capsys.readouterr().out
    for view in ("v_spend", "v_latency_by_step", "v_confidence_delta_bins", "v_calibration", "v_trust_checks"):
        assert view in said
    assert "0.06" in said and "8 signals" in said and "1 of 4 calls have no known price" in said
    assert "█" in said
    assert re.search(r"│ 1 h +│ +4 │", said), said


def test_unknown_prices_are_counted_and_in_no_sum(report: Report) -> None:
    assert sum(by_day(report)["2026-03-01"].values()) == pytest.approx(0.06)
    assert sum(row["unpriced"] for row in report["spend"]) == 1
    assert [usd(v) for v in (None, 0.0, 0.00012, 1234.5)] == ["unknown", "0.00", "0.00012", "1,234.50"]


def test_the_page_holds_every_chart_beside_its_table_and_nothing_of_elsewhere(report: Report) -> None:
    page = page_of(report, written_at=AT)
    tree = parser.fromstring(page)
    charts = tree.xpath("//figure/svg")
    assert [c.findtext("title") for c in charts] == [
        "Cost by day and step",
        "Latency by step",
        "What verification did to confidence",
        "Reliability: stated confidence and share of hits",
    ]
    for chart in charts:
        assert chart.get("role") == "img" and chart.findtext("desc")
    for section in tree.xpath("//section[figure]"):
        assert section.xpath(".//table[caption]/thead//th[@scope='col']"), section.findtext("h2")
    assert_inert(page)
    assert page == page_of(report, written_at=AT)
    assert "ECE" in page and "1 h" in page and "not_imported" in page


def assert_inert(page: str) -> None:
    """No script, no handler, no address that a browser would ask, and a policy that allows the one style sheet alone."""
    tree = parser.fromstring(page)
    assert not tree.xpath(
        "//script|//iframe|//object|//embed|//link|//img|//base|//form|//a|//use|//image|//foreignobject"
    )
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on") and name not in ("src", "href", "xlink:href", "style"), (
                name,
                value,
            )
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) and "@import" not in page and "url(" not in page
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    (style,) = tree.xpath("//style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ") and f"style-src 'sha256-{digest}'" in policy
    assert "prefers-color-scheme:dark" in style.text


async def test_hostile_text_in_the_data_is_shown_and_does_nothing(
    clickhouse: ClickHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill_signals(clickhouse, published(signal(event_type=HOSTILE)))
    recalled = ev.ContextGathered(entries=(), memory="no_match", calls=(model_call("0.5", mode=HOSTILE),))
    await fill(clickhouse, [record(recalled, step=HOSTILE)])
    report = await read_report(clickhouse, run_id="live")
    page = page_of(report, written_at=HOSTILE)
    assert_inert(page)
    assert HOSTILE not in page and page.count("&lt;svg onload=alert(1)&gt;") >= 3
    print_report_of(report)
    assert HOSTILE in capsys.readouterr().out


async def test_without_outcomes_it_says_so_and_draws_no_curve(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, published(signal()))
    page = page_of(await read_report(clickhouse, run_id="live"), written_at=AT)
    assert "No signal has an outcome yet" in page and "newsproof outcomes import" in page
    assert not parser.fromstring(page).xpath("//section[h2='Reliability']//svg//circle")


async def test_made_up_prices_are_called_so(clickhouse: ClickHouse, capsys: pytest.CaptureFixture[str]) -> None:
    await the_set(clickhouse)
    await clickhouse.command("ALTER TABLE outcomes UPDATE source = 'synthetic:x' WHERE 1 SETTINGS mutations_sync = 1")
    report = await read_report(clickhouse, run_id="live")
    print_report_of(report)
    assert "SYNTHETIC" in capsys.readouterr().out and "SYNTHETIC" in page_of(report, written_at=AT)


async def test_a_run_that_is_not_there_is_named(clickhouse: ClickHouse, capsys: pytest.CaptureFixture[str]) -> None:
    report = await read_report(clickhouse, run_id="no-such-run")
    print_report_of(report)
    assert "nothing of this run" in capsys.readouterr().out
    assert_inert(page_of(report, written_at=AT))
    assert set(report.answers) == set(QUESTIONS)


@pytest.mark.slow
def test_the_command_prints_writes_the_page_and_says_where(tmp_path: Path) -> None:
    done = newsproof("report", "--html", "report.html", cwd=tmp_path)
    assert done.returncode == exits.OK, done.stderr
    assert "Wrote report.html" in done.stderr and "nothing of this run" in done.stdout
    page = (tmp_path / "report.html").read_text("utf-8")
    assert_inert(page)
    assert page.count("there are no prices yet: newsproof outcomes import") == 1
    as_json = newsproof("report", "--json", "--html", "no/such/place.html", cwd=tmp_path)
    assert as_json.returncode == exits.USAGE and "cannot be written" in as_json.stderr
    assert json.loads(as_json.stdout)["run_id"] == "live"


@pytest.mark.security
def test_the_audit_lists_what_is_forged_or_overstated_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    required = [field.name for field in msgspec.structs.fields(AuditReport) if field.required]
    counts: dict[str, Any] = dict.fromkeys(required, 0)
    forged = (FaultySignal(1, 42, "it differs from what the journal holds"),)
    overstated = (FaultySignal(0, 7, "sell of what is refuted"),)
    print_audit(AuditReport(**counts, forged_signals=30, forged=forged, overstated_signals=2, overstated=overstated))
    said = capsys.readouterr().out
    assert "Overstated signals (1 of 2)" in said and "sell of what is refuted" in said
    assert "Forged or altered signals (1 of 30)" in said and "it differs from what the journal holds" in said
    assert "NOT CLEAN" in said and "Do not act on these records" in said and "Clean:" not in said
    assert "newsproof dlq" not in said, "nothing is lost or twice here"
