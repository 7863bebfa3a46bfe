"""What the demo's outcome is counted against: the labels of its sample, which never enter the pipeline."""

from __future__ import annotations

import pytest

from infra.offline.sample_news import Label, sample_labels, sample_news
from newsproof.report.demo import LabelFigures, against_labels, print_labels
from newsproof.report.signals import print_signals
from tests.newsproof.signal_samples import signal

LABELS = {
    signal(name).case_id: Label(truth, event_type)  # type: ignore[arg-type]
    for name, truth, event_type in (
        ("bought", "false", "listing"),
        ("withdrawn", "false", "partnership"),
        ("speech", "false", "macro"),
        ("silent", "false", "hack"),
        ("sure", "true", "hack"),
        ("doubted", "true", "listing"),
        ("half", "mixed", "whale"),
    )
}


def test_figures_are_counted_by_the_newest_revision_of_each_signal() -> None:
    signals = [
        signal("bought", verdict="likely", action="buy"),
        signal("withdrawn", revision=2, stage="retracted", verdict="refuted", action="observe"),
        signal("withdrawn", action="buy"),  # however they come
        signal("speech", stage="preliminary", verdict="unchecked", action="buy"),
        signal("sure", verdict="confirmed"),
        signal("doubted", verdict="disputed", action="observe"),
        signal("half", verdict="confirmed"),
    ]
    searched = {signal(name).case_id for name in ("bought", "withdrawn", "speech", "sure")}
    assert against_labels(LABELS, signals, searched) == LabelFigures(
        false_items=4, false_actioned=1, false_searchable=3, false_searched=2, true_items=2, true_confirmed=1
    )


def test_the_sample_holds_eleven_false_and_twenty_six_true_items() -> None:
    labels = sample_labels()
    assert set(labels) == {str(news.external_id) for news in sample_news()}
    figures = against_labels(labels, [], set())
    assert (figures.false_items, figures.false_searchable, figures.true_items) == (11, 9, 26)
    assert (figures.false_actioned, figures.false_searched, figures.true_confirmed) == (0, 0, 0)


def test_the_tables_say_what_was_found_and_of_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    print_signals(
        [
            signal("a", supporting_sources=2, summary_zh="甲", summary_en="one"),
            signal("b", verdict="unchecked", unchecked_reason="gate", action="observe", direction="long"),
            signal("c", stage="retracted", verdict="refuted", action="observe", direction="neutral"),
        ],
        language="zh",
        wide=True,
    )
    print_labels(
        LabelFigures(
            false_items=4, false_actioned=1, false_searchable=3, false_searched=2, true_items=26, true_confirmed=20
        )
    )
    said = capsys.readouterr().out
    for words in (
        "已证实",
        "甲",
        "未核查（常规消息，不作核查）",
        "观望 · 做多",
        "已撤回，不实",
        "1 of 4",
        "2 of 3",
        "20 of 26",
    ):
        assert words in said
    assert "one" not in said.split("支持信源：支持")[0].split()
