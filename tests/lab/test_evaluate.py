"""``./run eval``: the judged cases of a file, field by field, beside plain counting."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.tables import load_tables
from infra.offline.scripted.critic import in_slots
from lab.__main__ import app
from lab.eval.evaluate import FIELDS, Evaluation, read_case
from lab.eval.judging import evaluate, judge_case, read_oracle
from newsproof.app import exits
from schemas.config import Snapshot
from schemas.errors import ConfigError

DATA = Path(__file__).parents[1] / "data"
SNAPSHOT = Snapshot(tables=load_tables(demo=False))
KNOWN_WRONG = {"e01": {"delta"}, "e04": {"conflict"}, "e06": {"independent_sources"}, "e11": {"delta"}}
"""Words alone raise nothing; beside a denial only a rumour, which supports nothing; the claimant's own page, which counts as one source now."""


def _lines(name: str) -> list[bytes]:
    return (DATA / f"{name}.jsonl").read_bytes().splitlines()


def judged(name: str, stances: str | None = None) -> Evaluation:
    lines = _lines(name)
    given = None if stances is None else read_oracle(DATA / f"{stances}.jsonl")
    return evaluate(((n, read_case(line)) for n, line in enumerate(lines, start=1)), SNAPSHOT, given)


def evaluated(*arguments: str) -> CompletedProcess[str]:
    """Run the command in this process; the status and the text of an error are those of the command line."""
    done = CliRunner().invoke(app, ["eval", *arguments], env={"COLUMNS": "160"})
    failed = None if isinstance(done.exception, SystemExit | None) else done.exception
    status, said = (done.exit_code, "") if failed is None else (exits.status_of(failed), exits.text_of(failed))
    return CompletedProcess(arguments, status, done.stdout, done.stderr + said)


def case(**changes: Any) -> dict[str, Any]:
    page = {
        "title": "Kraken lists LUM",
        "url": "https://blog.kraken.com/lum",
        "content": "Trading for LUM is live at Kraken as of today, and deposits are open for all clients.",
        "score": 0.9,
        "published_at": "2024-06-03T09:30:00Z",
    }
    whole = {
        "id": "x1",
        "news": {"text": "Kraken adds token LUM", "language": "en", "source": "s", "url": None, "published_at": None},
        "as_of": "2024-06-03T10:00:00Z",
        "preliminary": {"event_type": "listing", "asset": "LUM", "confidence": 0.7, "action": "buy"},
        "entity": None,
        "evidence": [page],
        "expect": {"independent_sources": 1, "official_confirmed": True, "delta": "any", "stale": None},
    }
    return whole | changes


def test_the_given_cases_are_right_and_plain_counting_is_not() -> None:
    evaluation = judged("evidence_cases")
    wrong = {r.id: {n for n, f in r.fields.items() if not f.right} for r in evaluation.per_case if not r.all_right}
    assert (evaluation.cases, wrong) == (12, KNOWN_WRONG)
    assert (evaluation.false_raised, evaluation.true_lowered, evaluation.actions_without_support) == (0, 0, 0)
    assert evaluation.fields["independent_sources"].plain_right == 7
    assert evaluation.fields["official_confirmed"].plain_right == 5
    assert evaluation.fields["denied"].plain_right is None


@pytest.mark.parametrize(
    ("name", "cases", "right", "lowered"),
    [
        ("evidence_own_tuning", 106, 50, 22),
        ("evidence_own_held_out", 53, 22, 8),
        ("judgement_public", 264, 63, 47),
        ("judgement_held_out", 102, 20, 23),
        ("judgement_second_held_out", 71, 13, 8),
        ("judgement_third_held_out", 128, 28, 22),
    ],
)
def test_by_words_alone_nothing_is_raised_or_refuted_and_no_more_true_claims_fall_than_were_measured(
    name: str, cases: int, right: int, lowered: int
) -> None:
    # What falls is the price of doubting without a reader. Nobody tunes on the held-out ones: only numbers are looked at.
    evaluation = judged(name)
    assert (evaluation.cases, evaluation.actions_without_support) == (cases, 0)
    measured = {str(c.get("id")) for c in map(json.loads, _lines(name)) if c.get("measurements")}
    by_words = [r for r in evaluation.per_case if r.id not in measured]
    assert not [r.id for r in by_words if r.confidence > r.preliminary or r.rule == "refuted"]
    assert evaluation.true_lowered <= lowered
    assert evaluation.all_right >= right


def test_given_stances_are_one_for_each_page(tmp_path: Path) -> None:
    file, stances = tmp_path / "cases.jsonl", tmp_path / "stances.jsonl"
    file.write_text(json.dumps(case(expect={"verdict": "confirmed", "supporting_sources": 1})) + "\n", "utf-8")
    entry = {"stance": "supports", "quote": "Trading for LUM is live at Kraken", "speaks_for": "party"}
    stances.write_text(json.dumps({"id": "x1", "stances": [entry]}) + "\n", "utf-8")
    done = evaluated(str(file), "--oracle", str(stances), "--strict", "--json")
    assert (done.returncode, done.stderr) == (exits.OK, "")
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["fields"]["verdict"]["right"], told["false_raised"]) == (1, 0)
    stances.write_text(json.dumps({"id": "x1", "stances": []}) + "\n", "utf-8")
    few = evaluated(str(file), "--oracle", str(stances))
    assert (few.returncode, "1 pages and 0 stances" in few.stderr) == (exits.USAGE, True)
    stances.write_text('{"id": "x1", "stances": [{"stance": "agrees"}]}\n', "utf-8")
    unknown = evaluated(str(file), "--oracle", str(stances))
    assert (unknown.returncode, "line 1" in unknown.stderr) == (exits.USAGE, True)


SLOTS = {
    "says": "affirms", "quote": "Trading for LUM is live at Kraken", "speaks_for": "party",
    **dict.fromkeys(("subject", "act", "stage", "place", "amount", "date"), "agrees"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("stance", "verdict"),
    [
        (SLOTS, "confirmed"),
        (SLOTS | {"place": "differs"}, "unconfirmed"),
        (SLOTS | {"says": "denies"}, "refuted"),
        (SLOTS | {"says": "denies", "act": "differs"}, "unconfirmed"),
        (SLOTS | {"says": "nothing", "quote": None}, "unconfirmed"),
        ({"says": "nothing"}, "unconfirmed"),
    ],
)
def test_stances_may_be_given_by_slots_and_the_same_code_judges_them(
    stance: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    file = tmp_path / "stances.jsonl"
    file.write_text(json.dumps({"id": "x1", "stances": [stance]}) + "\n", "utf-8")
    judged_one = judge_case(1, read_case(json.dumps(case()).encode()), SNAPSHOT, read_oracle(file))
    assert judged_one.rule == verdict


def test_the_same_readings_by_slots_are_judged_as_they_are_by_stances(tmp_path: Path) -> None:
    name, file = "judgement_second_held_out", tmp_path / "stances.jsonl"
    lines = []
    for line in (DATA / f"{name}_stances.jsonl").read_bytes().splitlines():
        given = json.loads(line)
        entries = [in_slots({"number": 0, **entry, "reason": ""}) for entry in given["stances"]]
        # A careful reader says of which event a denial is.
        entries = [e | {"date": "agrees"} if e["says"] == "denies" else e for e in entries]
        lines.append(json.dumps({"id": given["id"], "stances": entries}))
    file.write_text("\n".join(lines), "utf-8")
    cases = [(n, read_case(line)) for n, line in enumerate((DATA / f"{name}.jsonl").read_bytes().splitlines(), start=1)]
    by_slot, by_stance = evaluate(cases, SNAPSHOT, read_oracle(file)), judged(name, f"{name}_stances")
    assert [(r.id, r.rule, r.confidence) for r in by_slot.per_case] == [
        (r.id, r.rule, r.confidence) for r in by_stance.per_case
    ]


def test_slots_are_given_whole_and_the_error_tells_both_forms(tmp_path: Path) -> None:
    file = tmp_path / "stances.jsonl"
    given = {k: v for k, v in SLOTS.items() if k != "date"}
    file.write_text(json.dumps({"id": "x1", "stances": [given]}) + "\n", "utf-8")
    with pytest.raises(ConfigError, match=r'line 1: .*"stance": "supports.*"says": "affirms'):
        read_oracle(file)


def test_the_claims_own_amount_is_compared_with_the_pages(tmp_path: Path) -> None:
    file = tmp_path / "stances.jsonl"
    file.write_text(
        json.dumps({"id": "x1", "stances": [SLOTS | {"quote": "LUM worth $3 million is live"}]}) + "\n", "utf-8"
    )
    page = case()["evidence"][0] | {
        "content": "At Kraken, LUM worth $3 million is live as of today, for all of its clients."
    }
    for amount, verdict in (
        ({"value": 3, "unit": "million USD"}, "confirmed"),
        ({"value": 300, "unit": "百万美元"}, "unconfirmed"),
    ):
        given = case(evidence=[page], claim={"subject": "Kraken", "amount": amount, "asset": "LUM", "venue": None})
        assert judge_case(1, read_case(json.dumps(given).encode()), SNAPSHOT, read_oracle(file)).rule == verdict


def test_with_json_the_last_line_is_one_object_of_the_promised_shape(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case()) + "\n\n" + json.dumps(case(id="x2", expect={"denied": True})) + "\n", "utf-8")
    done = evaluated(str(file), "--json")
    assert (done.returncode, done.stderr) == (exits.OK, "")
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["cases"], told["all_right"], set(told["fields"])) == (2, 1, set(FIELDS))
    assert told["fields"]["independent_sources"] == {"right": 1, "judged": 1, "plain_right": 1}
    assert told["fields"]["stale"] == {"right": 0, "judged": 0, "plain_right": None}
    assert [(c["id"], c["line"], c["all_right"]) for c in told["per_case"]] == [("x1", 1, True), ("x2", 3, False)]
    assert told["per_case"][1]["fields"]["denied"] == {
        "expected": True, "got": False, "right": False, "plain": None, "plain_right": None,
    }  # fmt: skip


def test_people_read_what_is_wrong_and_strict_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case(expect={"denied": True})) + "\n", "utf-8")
    done = evaluated(str(file), "--strict")
    assert done.returncode == exits.FINDING
    assert "denied: False, expected True" in done.stdout
    assert "0 of 1 case right" in done.stdout
    table = evaluated(str(file), "--markdown")
    assert (table.returncode, "| denied | 0 | 1 | – |" in table.stdout) == (exits.OK, True)


def test_a_bad_line_is_named_and_the_others_are_judged(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    bad_date = case(evidence=[{"url": "https://a.example", "published_at": "yesterday"}])
    lines = [b"{", json.dumps(case()).encode(), json.dumps(bad_date).encode(), b'{"id": "n"}', b"\xff",
             json.dumps(case(expect={"sources": 3})).encode(), json.dumps(case(as_of=None)).encode()]  # fmt: skip
    file.write_bytes(b"\n".join(lines))
    done = evaluated(str(file), "--json")
    assert done.returncode == exits.FINDING
    assert json.loads(done.stdout.splitlines()[-1])["cases"] == 1
    assert [f"line {n}:" in done.stderr for n in range(1, 8)] == [True, False, *[True] * 5]
    assert all(said in done.stderr for said in ("yesterday", "sources", "as_of"))


@pytest.mark.parametrize("content", [None, b"\n\n", b"nothing here\n"])
def test_a_file_without_a_case_ends_with_2_and_says_what_a_case_is(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "cases.jsonl"
    if content is not None:
        file.write_bytes(content)
    done = evaluated(str(file))
    assert (done.returncode, done.stdout) == (exits.USAGE, "")
    assert "judged case" in done.stderr


def test_evidence_without_a_score_counts_as_relevant_and_one_without_a_zone_is_utc() -> None:
    page = {"url": "https://blog.kraken.com/lum", "title": "Kraken lists LUM",
            "content": "Trading for LUM is live at Kraken as of today.......", "published_at": "2024-06-03T10:00:00"}  # fmt: skip
    found = judge_case(1, read_case(json.dumps(case(evidence=[page])).encode()), SNAPSHOT)
    assert (found.rule, found.fields["official_confirmed"].got, found.risk_flags) == ("confirmed", True, ())
