"""The report's calibration: the noise floor beside each ECE, the calibrated confidence, and withdrawn signals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from lxml import html as parser  # type: ignore[import-untyped]

from evaluation.statistics.blocks import share_interval
from infra.clickhouse.client import ClickHouse
from newsproof.report.data import Report, read_report
from newsproof.report.html_report import page_of
from newsproof.report.text_report import print_report_of
from streams.calibration.noise_floor import noise_floor
from tests.infra.clickhouse.clickhouse_samples import NOW, fill_signals, published, seconds, signal
from tests.infra.clickhouse.test_questions import H, outcomes_of, row_of

DAY_S = 86_400


@pytest.fixture
async def report(clickhouse: ClickHouse) -> Report:
    """Eight buys of one day each: 0.9 said, 0.55 calibrated; two of them denied after ten minutes, and both lost.

    One more bought on another horizon, and an observed long that rose: it has no order, and its calibrated confidence counts.
    """
    signals, rows = [], []
    changes = [0.02, 0.02, 0.02, 0.02, -0.01, -0.01, -0.03, -0.03]
    for n, change in enumerate(changes):
        at = NOW + timedelta(days=n)
        signals += revisions(f"case-{n}", at, denied=change == -0.03, confidence=0.9, confidence_calibrated=0.55)
        rows.append(row_at(f"case-{n}", change, at))
    signals += revisions("day", NOW, confidence=0.9, confidence_calibrated=0.7, horizon=DAY_S)
    signals += revisions("lean", NOW, action="observe", confidence=0.4, confidence_calibrated=0.52)
    rows += [row_at("day", 0.01, NOW), row_at("lean", 0.01, NOW)]
    await fill_signals(clickhouse, *signals)
    await outcomes_of(clickhouse, *rows)
    return await read_report(clickhouse, run_id="live", interval=share_interval)


def row_at(case: str, change: float, at: Any) -> dict[str, Any]:
    return row_of(case, change, entry_at=at + seconds(60), exit_at=at + seconds(60 + H))


def revisions(case: str, at: Any, *, denied: bool = False, **how: Any) -> list[Any]:
    given = {"action": "buy", "direction": "long", "horizon": H, **how}
    named = {"case_id": case, "signal_id": case}
    said = [published(signal(**named, **given), emitted_at=at, knowable_at=at)]
    if denied:
        gone = signal(**named, revision=2, stage="retracted", confidence=0.0)
        said.append(published(gone, emitted_at=at + seconds(600)))
    return said


def of(report: Report, name: str, **where: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in report[name] if all(row[key] == value for key, value in where.items())]


def test_beside_each_ece_is_what_chance_alone_would_show(report: Report) -> None:
    (raw,) = of(report, "calibration", horizon_s=H)
    assert (raw["cases"], raw["ece"]) == (7, pytest.approx(0.9 - 5 / 7))
    assert raw["ece_noise"] == pytest.approx(noise_floor([(7, 0.9)])) and raw["ece_noise"] > 0.1


def test_the_calibrated_confidence_is_judged_at_its_own_horizon_with_withdrawn_and_observed_signals(
    report: Report,
) -> None:
    (better,) = report["calibrated"]
    assert (better["horizon_s"], better["cases"]) == (H, 9), "eight buys, withdrawn ones too, and the lean"
    assert better["hit_rate"] == pytest.approx(5 / 9)
    assert better["ece"] == pytest.approx(abs(5 - 8 * 0.55 - 0.52) / 9)
    assert of(report, "calibrated_bins") == [
        {"horizon_s": H, "confidence_from": 0.5, "cases": 9, "stories": 9, "hit_rate": pytest.approx(5 / 9),
         "mean_confidence": pytest.approx((8 * 0.55 + 0.52) / 9)}
    ]  # fmt: skip


def test_precision_is_shown_without_and_with_withdrawn_signals(report: Report) -> None:
    counts = {by: of(report, "precision", horizon_s=H, by=by)[0] for by in ("all", "held")}
    assert [(row["counted"], row["hits"]) for row in counts.values()] == [(7, 5), (9, 5)]
    assert [row["group"] for row in counts.values()] == ["", ""]
    assert counts["held"]["low"] < counts["held"]["precision"] < counts["held"]["high"]


def test_text_and_page_show_both_and_the_cases_of_each_bin(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    print_report_of(report)
    said = capsys.readouterr().out
    for words in ("noise floor", "Calibrated confidence by horizon", "all, retracted ones too", "Cases by tenth"):
        assert words in said
    tree = parser.fromstring(page_of(report, written_at="2026-03-09 12:00 UTC"))
    captions = tree.xpath("//section[h2='Reliability']//table/caption/text()")
    assert "Calibrated confidence by horizon" in captions
    (chart,) = tree.xpath("//section[h2='Reliability']//div[@class='wide']/svg")
    drawn = chart.xpath(".//text/text()")
    assert any(words.startswith("1 h, calibrated: ECE 0.009 (noise 0.") for words in drawn)
    assert drawn.count("7") == 1 and drawn.count("9") == 1, "cases of the raw bin and of the calibrated one"
