"""Labels: what files of them say, which cases they name, and judgements against them, worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from evaluation.labels.label_file import KnownCase, Label, find_cases, read_labels, sample_labels
from evaluation.labels.label_report import LabelledJudgement, LabelReport, report_of
from evaluation.statistics.blocks import mean_of
from schemas.errors import ConfigError, ContractError
from streams.reputation.intervals import wilson


def written(directory: Path, text: str, name: str = "l.csv") -> Path:
    path = directory / name
    path.write_text(text, "utf-8")
    return path


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    table = written(
        tmp_path,
        'Truth,case,source,note,when,text\nTRUE,h1,ann,"one\ntwo",2024-01-31T14:00:00+02:00,x\nfalse,h2,ann,,,\n',
    )
    first = {
        "case": "h1",
        "truth": True,
        "source": "ann",
        "note": "one\ntwo",
        "when": "2024-01-31T12:00:00",
        "text": "x",
    }
    second = {"case": "h2", "truth": "false", "source": "ann"}
    lines = written(tmp_path, f"{json.dumps(first)}\n\n{json.dumps(second)}\n", "l.jsonl")
    of_table, of_lines = read_labels(table), read_labels(lines)
    assert [(one.case, one.truth, one.source, one.note, one.labelled_at) for one in of_table.labels] == [
        ("h1", "true", "ann", "one\ntwo", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("h2", "false", "ann", "", None),
    ]
    assert [one.labelled_at for one in of_lines.labels] == [one.labelled_at for one in of_table.labels]
    assert [(one.case, one.truth, one.note) for one in of_lines.labels] == [
        (one.case, one.truth, one.note) for one in of_table.labels
    ]
    assert of_table.ignored == of_lines.ignored == ("text",)


def test_a_file_without_a_source_takes_it_from_the_option(tmp_path: Path) -> None:
    file = written(tmp_path, "case,truth\nh1,partly\n")
    assert [(one.source, one.truth) for one in read_labels(file, source="ann").labels] == [("ann", "partly")]
    with pytest.raises(ConfigError, match=r"header lacks source: add the column \(or give --source NAME\)"):
        read_labels(file)


def test_every_wrong_line_is_named_and_nothing_is_taken(tmp_path: Path) -> None:
    lines = ["case,truth,source,when", "h1,maybe,ann,", ",true,ann,", "h2,true,,", "h3,true,ann,soon", "h4,true"]
    lines += ["h5,true,ann,", "h5,false,ann,", "h5,false,bob,"]
    with pytest.raises(ContractError) as caught:
        read_labels(written(tmp_path, "\n".join(lines)))
    said = str(caught.value)
    assert "nothing was imported, 6 lines are wrong" in said
    for expected in (
        "line 2: truth 'maybe' must be one of true, false, partly, unknown",
        "line 3: no case: give a case id",
        "line 4: no source: say who",
        "line 5: when 'soon' is not a time",
        "line 6: 2 fields instead of 4",
        "line 8: ann already labels h5 in line 7",
    ):
        assert expected in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"case,source\nh,a\n", "its header lacks truth"),
        ("case,truth,source\nä,true,a\n".encode("latin-1"), "not UTF-8"),
        (b'{"case": "h"\n', "line 1: not JSON"),
        (b'{"case": "h1", "truth": "true", "source": "a"}\n[1]\n', "line 2: not a JSON object"),
    ],
)
def test_what_is_no_file_of_labels_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "l"
    path.write_bytes(content)
    with pytest.raises((ConfigError, ContractError), match=says):
        read_labels(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_labels(tmp_path / "none.csv")


def test_the_samples_labels_are_those_of_its_events() -> None:
    labels = sample_labels().labels
    assert Counter(one.truth for one in labels) == {"true": 26, "false": 11, "partly": 5}
    assert (labels[0].case, labels[0].truth) == ("h01", "false")
    assert "the giveaway was a scam" in labels[0].note


def label(case: str) -> Label:
    return Label(case=case, truth="true", source="ann", line=1)


def test_a_case_is_named_by_its_id_the_news_id_or_a_prefix_of_its_id() -> None:
    known = [
        KnownCase("abcd-1", "wire", "n1"),
        KnownCase("abcd-2", "wire", "n2"),
        KnownCase("ef01-1", "blog", "n2"),
        KnownCase("n7", "wire", "abcd-1"),  # a news id that is another case's id: the id goes first
        KnownCase("run-only"),
    ]
    names = ["abcd-1", "wire:n2", "n1", "EF01", "run-only", "abcd", "n2", "ef0", "", "nobody"]
    found = find_cases([label(name) for name in names], known)
    assert [(one.case, case_id) for one, case_id in found.cases] == [
        ("abcd-1", "abcd-1"),
        ("wire:n2", "abcd-2"),
        ("n1", "abcd-1"),
        ("EF01", "ef01-1"),
        ("run-only", "run-only"),
    ]
    assert [(one.case, ids) for one, ids in found.ambiguous] == [
        ("abcd", ("abcd-1", "abcd-2")),
        ("n2", ("abcd-2", "ef01-1")),
    ]
    assert [one.case for one in found.unknown] == ["ef0", "", "nobody"]


DAY_S = 86_400.0
SET = [
    # Two reports of one story that were confirmed and false, one that was true; a refutation that was wrong, one right.
    LabelledJudgement("a", "s", "confirmed", True, 0.9, "false", 0.0),
    LabelledJudgement("b", "s", "confirmed", True, 0.8, "false", 9 * DAY_S),
    LabelledJudgement("c", "c", "confirmed", True, 0.9, "true", DAY_S),
    LabelledJudgement("d", "d", "confirmed", True, 0.7, "partly", DAY_S),
    LabelledJudgement("e", "e", "refuted", False, 0.1, "true", DAY_S),
    LabelledJudgement("f", "f", "refuted", False, 0.2, "false", 2 * DAY_S),
    LabelledJudgement("g", "g", "refuted", False, 0.2, "disputed", 2 * DAY_S),
    LabelledJudgement("h", "h", "unchecked", False, 0.5, "unknown", 2 * DAY_S),
]


def test_figures_against_labels_are_those_worked_out_by_hand() -> None:
    found = report_of("live", SET, judgements=11)
    assert (found.judgements, found.labelled) == (11, 8)
    assert found.by_truth == {"true": 2, "false": 3, "partly": 1, "disputed": 1, "unknown": 1}
    wrong = found.confirmed_that_was_false
    # The story's second report, nine days later, is of its own day.
    assert (wrong.count, wrong.of, wrong.stories, wrong.days, wrong.share) == (2, 3, 2, 3, pytest.approx(2 / 3))
    assert (wrong.low, wrong.high, found.all.brier_low, found.all.brier_high) == (None, None, None, None)
    assert (found.refuted_that_was_true.count, found.refuted_that_was_true.of) == (1, 2)
    assert found.verdicts["confirmed"] == {"true": 1, "false": 2, "partly": 1, "disputed": 0, "unknown": 0}
    assert found.verdicts["refuted"]["disputed"] == found.verdicts["unchecked"]["unknown"] == 1
    # (0.81 + 0.64 + 0.01 + 0.81 + 0.04) / 5, and the first three of these alone.
    assert (found.all.judgements, found.all.stories, found.all.brier) == (5, 4, pytest.approx(0.462))
    assert found.all.mean_confidence == pytest.approx(0.58)
    assert (found.all.was_true.count, found.all.was_true.of) == (2, 5)
    assert (found.acted.judgements, found.acted.brier) == (3, pytest.approx(1.46 / 3))


def test_intervals_draw_days_and_not_judgements() -> None:
    """Ten judgements a day that are right or wrong together are as good as one a day."""

    def on_days(each: int) -> LabelReport:
        truths = ["false", "true", "true", "true", "true", "true", "true", "true"]
        rows = [
            LabelledJudgement(f"{day}-{n}", f"{day}-{n}", "confirmed", True, 0.6 + day / 50, truth, day * DAY_S + n)
            for day, truth in enumerate(truths)
            for n in range(each)
        ]
        return report_of("live", rows, judgements=len(rows))

    one, ten = on_days(1), on_days(10)
    wrong = ten.confirmed_that_was_false
    assert (wrong.count, wrong.of, wrong.days) == (10, 80, 8)
    # Of eight days that vary alone the blocks' variance is that of seven independent cases, fewer by the factor for eight days.
    sure = 7 * (1.959963985 / 2.364624252) ** 2
    assert (wrong.low, wrong.high) == pytest.approx(wilson(sure / 8, sure))
    assert (one.confirmed_that_was_false.low, one.confirmed_that_was_false.high) == pytest.approx(
        wilson(sure / 8, sure)
    )
    assert (one.refuted_that_was_true.low, one.refuted_that_was_true.high) == (None, None)
    squares = [(0.6 + day / 50 - (day > 0)) ** 2 for day in range(8)]
    band = mean_of(np.array(squares), np.arange(8), seed=0)
    assert (ten.all.brier, ten.all.brier_low, ten.all.brier_high) == pytest.approx(
        (band.estimate, max(band.low or 0.0, 0.0), band.high)
    )


def test_a_share_of_nothing_wrong_is_as_sure_as_its_days() -> None:
    rows = [LabelledJudgement(f"{n}", f"{n}", "confirmed", True, 0.9, "true", n // 4 * DAY_S) for n in range(40)]
    wrong = report_of("live", rows, judgements=40).confirmed_that_was_false
    assert (wrong.share, wrong.low, wrong.high) == pytest.approx((0.0, *wilson(0, 10)))


def test_what_nothing_is_known_of_has_no_share_and_no_score() -> None:
    found = report_of("b", [LabelledJudgement("h", "h", "likely", True, 0.5, "disputed", 0.0)], judgements=1)
    assert found.all.brier is found.all.mean_confidence is found.all.was_true.share is None
    assert (found.confirmed_that_was_false.share, found.confirmed_that_was_false.high) == (None, None)
