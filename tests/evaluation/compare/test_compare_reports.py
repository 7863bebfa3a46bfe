"""What the reports show in each form, and that text of strangers is inert in all of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from evaluation.compare.compare_runs import gate_status
from evaluation.compare.comparison import Comparison, compare, with_texts
from evaluation.compare.documents import as_html, as_json, as_markdown
from evaluation.compare.pairing import describe_alignment
from evaluation.compare.run_rows import MAX_LINE, MAX_LINES, CaseText, changes_summary, difference, visible
from evaluation.compare.terminal import show_table
from evaluation.compare.terms import Scoring
from tests.evaluation.compare.compare_samples import CHANGES, after, called, case, example, run

PAGE = Path(__file__).parents[3] / "docs" / "verdict.md"
NAMES = "abcdefgh"
ROSE = {3600: dict.fromkeys("abcdef", 0.02) | dict.fromkeys("gh", -0.01)}
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07 | ]]></system-out><failure/> ``` \n# heading\n![x](https://evil.example/p.png) @everyone "
    "<script>alert(1)</script> \u202egnp.exe \x00\ud800 =cmd()"
)


def compared(*, hostile: str = "", missed: bool = False) -> Comparison:
    """A says long with 0.6 on all eight (six rose); B with 0.8, short on g. h it dropped, or missed."""
    a = [case(n, **called("0.001", 100.0)) for n in NAMES]
    b = [case(n, confidence=0.8, notes_hash=2, **called("0.001", 120.0)) for n in "abcdef"]
    b.append(case("g", confidence=0.8, action="sell", direction="short", asset=hostile or "BTC", notes_hash=2))
    b.append(case("h", status="miss" if missed else "replayed", has_signal=0, action=""))
    found = compare(
        run("live", a, status="", name="offline judgements (run id live)"),
        run("b1", b, changes=CHANGES),
        after(ROSE),
        how=Scoring(primary="profit"),
        differences=2,
    )
    texts = {
        ("live", "g", 0): CaseText(signal="", notes="Confirmed. It rose.", fields={"action": "buy"}),
        ("b1", "g", 0): CaseText(signal="", notes=hostile or "Confirmed. It fell.", fields={"action": "sell"}),
    }
    return with_texts(found, texts, {"g": hostile or "Exchange denies it."})


def test_the_table_shows_everything_in_the_order_of_reading(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(compared(missed=True))
    out = capsys.readouterr().out
    order = (
        "A = offline judgements (run id live)\n",
        "B = b1: synthesize v4 (05eabc8d)",
        "7 of 8 cases completed in both runs: 7 stories on 7 days",
        "misses",
    )
    order += (
        "! run b1: 1 case did not complete",
        "Paths of the cases",
        "Metrics (the profit of a case",
        "profit (primary)",
        "not distinguishable",
        "confidence",
        "Flips: 1 of the action, 0 of the verdict",
        "buy → sell",
    )
    order += ("Largest differences (2 of 7)", "-notes: It rose.", "+notes: It fell.", "Cost of the cases", "0.008000")
    order += ("Verdict: profit (primary) is not distinguishable",)
    places = [out.find(text) for text in order]
    assert -1 not in places, dict(zip(order, places, strict=True))
    assert places == sorted(places)


def test_the_report_in_the_docs_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    a, b, returns, texts = example()
    show_table(with_texts(compare(a, b, returns, differences=1), texts))
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    page = PAGE.read_text("utf-8")
    assert printed in page
    there, back = compare(a, b, returns), compare(b, a, returns)
    for found, margins, status in ((there, {}, 101), (there, {"action_rate": 0.2}, 0), (back, {}, 100)):
        gate = gate_status(found, margins)
        assert gate[0] == status
        assert "\n".join(f"Gate {line}." for line in gate[1]) in page


def test_differences_that_are_not_asked_for_are_not_said_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = [case(n) for n in NAMES], [case(n, confidence=0.8) for n in NAMES]
    show_table(compare(run("A", a), run("B", b), differences=0))
    assert "Largest differences (0 of 8)" in capsys.readouterr().out


def test_nothing_executed_is_said_so_and_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [case(n) for n in NAMES]
    found = compare(run("A", rows), run("B", rows))
    show_table(found)
    out = capsys.readouterr().out
    assert "Not measured: cost, latency (nothing was executed)" in out and out.count(" nothing was executed ") == 2
    assert "Verdict: identical: B equals A in all 8 cases." in out
    told = json.loads(as_json(found))
    assert [s["cost_usd"] for s in told["spend"]] == [None, None]
    assert {m["a"] for m in told["metrics"] if m["metric"] in ("cost", "latency")} == {None}


def test_json_is_one_object_with_the_documented_keys() -> None:
    text = as_json(compared())
    told = json.loads(text)
    assert text.count("\n") == 1
    assert list(told) == [
        *("format_version", "a", "b", "name_a", "name_b", "changes_a", "changes_b", "verdict", "warnings"),
        *("comparability", "metrics"),
        *("segments", "calibration", "changed_texts", "flips", "verdict_flips", "differences", "spend"),
        *("cap", "trade_cost", "seed", "draws"),
    ]
    brier = next(m for m in told["metrics"] if (m["metric"], m["horizon"]) == ("brier", "1h"))
    # Each over what it acted on: A 6 x 0.16 + 2 x 0.36 of eight, B 7 x 0.04 of seven.
    assert (brier["a"], brier["b"]) == (pytest.approx(1.68 / 8), pytest.approx(0.04))
    assert told["spend"][0]["cost_usd"] == "0.008"
    assert [f["case_id"] for f in told["flips"]] == ["h", "g"] and told["differences"][1]["diff"]
    assert told["format_version"] == 3


def test_a_period_is_named_only_where_cases_worked_in_both() -> None:
    counts = msgspec.structs.replace(
        compared().comparability, aligned=1, in_both=3, stories=1, days=1, last_day="1970-04-08"
    )
    assert describe_alignment(counts) == "1 of 3 cases completed in both runs: 1 story on 1 day, 1970-04-08 (UTC)"
    none = msgspec.structs.replace(counts, aligned=0, stories=0, days=0, first_day="", last_day="")
    assert describe_alignment(none) == "0 of 3 cases completed in both runs"


def test_markdown_has_the_verdict_first_and_the_diff_in_a_fence() -> None:
    text = as_markdown(compared(missed=True))
    assert text.startswith(
        "### Backtest: offline judgements (run id live) against b1\n\n**profit (primary) is not distinguishable"
    )
    assert "```diff\n-" in text and "+notes: It fell." in text
    assert "| hit_rate&#64;1h | 0.7500 | unknown | +0.1250 to +0.2500 |" in text


def test_text_of_strangers_is_inert_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(hostile=HOSTILE)
    show_table(found)
    reports = {"table": capsys.readouterr().out, "json": as_json(found), "md": as_markdown(found)}
    for form, text in reports.items():
        raw = [
            c for c in text if (ord(c) < 32 and c != "\n") or c in "\x7f\x9b\u202e\ufffe" or 0xD800 <= ord(c) < 0xE000
        ]
        assert raw == [], form
        text.encode("utf-8")
    assert "<script" not in (page := as_html(found)) and "evil.example" in page
    outside = reports["md"].split("```")
    for part in (outside[0], outside[-1]):
        for markup in ("<script", "![", "](http", "@everyone", "\n# heading"):
            assert markup not in part
    # The fence is longer than any run of backticks within, so the text cannot end it.
    assert "````diff\n" in reports["md"]
    rows = [line for line in reports["md"].splitlines() if line.startswith("| g |")]
    assert [line.replace("\\|", "").count("|") for line in rows] == [8]


def test_a_difference_is_cut_at_what_a_person_reads() -> None:
    long = CaseText(signal="", notes="\n".join(f"line {n} {'x' * 900}" for n in range(500)), fields={})
    told = difference(CaseText(signal="", notes="", fields={}), long)
    assert len(told) == MAX_LINES + 1 and max(map(len, told)) == MAX_LINE
    assert told[-1].endswith("lines more")


def test_whole_signals_are_compared_field_by_field() -> None:
    a = CaseText(signal='{"action":"buy","risk_flags":["one"],"notes":"Same."}', notes="Same.", fields={})
    b = CaseText(signal='{"action":"sell","risk_flags":["one"],"notes":"Same."}', notes="Same.", fields={})
    assert [line for line in difference(a, b) if line[0] in "+-"] == ['- "action": "buy",', '+ "action": "sell",']
    assert difference(a, a) == ()
    assert "-(no signal)" in difference(None, b)
    assert difference(CaseText(signal="{", notes="", fields={}), b)  # a signal that is none is shown as it is


def test_what_a_run_changed_is_told_without_the_prompts_text() -> None:
    assert changes_summary(CHANGES) == "synthesize v4 (05eabc8d)"
    assert changes_summary('{"prompts":{}}') == "nothing changed"
    assert changes_summary("\x1bodd" * 999) == ("\\u001bodd" * 999)[:MAX_LINE]


def test_what_would_not_be_seen_is_written_out() -> None:
    assert visible("a\x1b[1m\u202e\u200b\n你好 é 🚀") == "a\\u001b[1m\\u202e\\u200b\\u000a你好 é 🚀"
