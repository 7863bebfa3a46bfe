"""Charts: figures stand where they belong, text stays text, nothing is drawn of nothing."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from newsproof.report.charts import (
    NARROW,
    Bin,
    Curve,
    CurvePoint,
    Percentiles,
    ReliabilityBin,
    ReliabilityLine,
    Share,
    Stack,
    histogram,
    percentile_ranges,
    reliability_curve,
    share_ranges,
    stacked_bars,
    study_panels,
)
from newsproof.report.charts.svg import COLOURS, STYLE, ticks
from newsproof.report.text_report import bar, sparkline

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><svg onload=alert(1)><script>alert(2)</script>&amp;\x00\x08'


def marks(svg: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(SVG + tag))


def place(mark: ET.Element, name: str) -> float:
    return float(mark.attrib[name])


def test_stacked_bars_are_as_high_as_their_values_and_stand_on_each_other() -> None:
    svg = stacked_bars(
        [Stack("01", {"triage": 1.0, "search": 3.0}), Stack("02", {"triage": 2.0})], title="t", unit="USD"
    )
    bars = [m for m in marks(svg, "rect") if m.find(SVG + "title") is not None]
    told = [str(m.findtext(SVG + "title")) for m in bars]
    assert sorted(told) == ["01, search: 3 USD", "01, triage: 1 USD", "02, triage: 2 USD"]
    height = {name: place(m, "height") for name, m in zip(told, bars, strict=True)}
    assert height["01, search: 3 USD"] == pytest.approx(3 * height["01, triage: 1 USD"], abs=0.05)
    lower, upper = bars[0], bars[1]
    assert place(upper, "y") + place(upper, "height") == pytest.approx(place(lower, "y"), abs=0.02)


def test_more_series_than_colours_are_drawn_together_and_nothing_is_lost() -> None:
    parts = {f"s{n:02}": float(n + 1) for n in range(12)}
    svg = stacked_bars([Stack("d", parts)], title="t", unit="USD")
    bars = [m for m in marks(svg, "rect") if m.find(SVG + "title") is not None]
    assert len(bars) == len(COLOURS)
    said = sum(float(str(m.findtext(SVG + "title")).split(": ")[1].split()[0]) for m in bars)
    assert said == sum(parts.values())


def test_a_histogram_has_its_columns_in_order_and_tells_sides_of_zero_apart() -> None:
    svg = histogram([Bin(0.1, 4), Bin(-0.2, 2), Bin(0.0, 1)], step=0.1, title="t", noun="signals")
    columns = marks(svg, "rect")
    by_place = sorted(columns, key=lambda m: place(m, "x"))
    assert [str(m.findtext(SVG + "title")).split(": ")[1] for m in by_place] == ["2 signals", "1 signals", "4 signals"]
    assert len({m.attrib["fill"] for m in columns}) == 2
    assert place(by_place[2], "height") == pytest.approx(4 * place(by_place[1], "height"), abs=0.05)


def test_percentiles_lie_on_a_logarithmic_axis() -> None:
    svg = percentile_ranges(
        [Percentiles("triage", 10.0, 100.0, 1000.0, 5), Percentiles("none", math.nan, 0.0, 0.0, 0)], title="t"
    )
    p50, p95, p99 = (place(m, "cx") for m in marks(svg, "circle")[:3])
    assert p95 - p50 == pytest.approx(p99 - p95, abs=0.05)
    assert "none" not in svg


def test_panels_of_a_study_share_one_scale_and_say_where_there_is_no_band() -> None:
    banded = [
        CurvePoint(-60, None, None, None, 0),
        CurvePoint(0, 0.0, -0.01, 0.01, 9),
        CurvePoint(5, 0.02, 0.0, 0.04, 9),
    ]
    few = [CurvePoint(m, value, None, None, 2) for m, value in ((-60, -0.02), (0, 0.0), (5, -0.04))]
    svg = study_panels([Curve("likely", 9, banded), Curve("refuted", 2, few)], title="t")
    dots = marks(svg, "circle")
    # Two of the first panel, three of the second; 4 % is as far from 0 in both.
    assert len(dots) == 5 and len(marks(svg, "path")) == 3
    zero = place(dots[0], "cy")
    assert zero - place(dots[1], "cy") == pytest.approx((place(dots[4], "cy") - zero) / 2)
    said = [mark.text for mark in marks(svg, "text")]
    assert "9 events" in said and "2 events, too few days" in said
    assert "refuted, +5 min: -4% (too few days for a band), 2 events" in [mark.text for mark in marks(svg, "title")]


def test_a_perfect_forecaster_lies_on_the_diagonal() -> None:
    bins = [ReliabilityBin(n / 10, n / 10, n + 1) for n in range(11)]
    svg = reliability_curve([ReliabilityLine(name="1 h", bins=bins, ece=0.0, noise=0.1234)], title="t")
    dots = marks(svg, "circle")
    diagonal = next(m for m in marks(svg, "line") if "stroke-dasharray" in m.attrib)
    slope = (place(diagonal, "y2") - place(diagonal, "y1")) / (place(diagonal, "x2") - place(diagonal, "x1"))
    for dot in dots:
        on_it = place(diagonal, "y1") + slope * (place(dot, "cx") - place(diagonal, "x1"))
        assert place(dot, "cy") == pytest.approx(on_it, abs=0.05)
    assert [place(d, "r") for d in dots] == sorted(place(d, "r") for d in dots)
    assert "ECE 0.000 (noise 0.123), 66 cases" in svg


def test_a_calibrated_series_is_dotted_in_the_colour_of_its_horizon_and_each_bin_says_its_cases() -> None:
    raw = [ReliabilityBin(0.72, 0.4, 31), ReliabilityBin(0.95, 0.6, 12_345)]
    better = [ReliabilityBin(0.41, 0.4, 77)]
    svg = reliability_curve(
        [
            ReliabilityLine(name="1 h", bins=raw, ece=0.3, noise=0.1, colour=2),
            ReliabilityLine(name="1 h, calibrated", bins=better, ece=0.01, noise=0.1, colour=2, dotted=True),
        ],
        title="t",
    )
    lines = marks(svg, "path")
    assert ["stroke-dasharray" in line.attrib for line in lines] == [False, True]
    assert lines[0].attrib["stroke"] == lines[1].attrib["stroke"]
    at = {mark.text: (place(mark, "x"), place(mark, "y")) for mark in marks(svg, "text")}
    assert at["31"][0] < at["12k"][0] and at["31"][1] == at["12k"][1] < at["77"][1]
    assert at["77"][0] < at["31"][0], "a bin's cases are under it"


def test_a_share_is_drawn_from_end_to_end_of_its_interval_and_one_of_too_few_days_is_only_counted() -> None:
    rows = [Share("confirmed", 30, 40, (0.5, 0.9)), Share("likely", 1, 2, None)]
    svg = share_ranges([("by verdict", rows), ("by source", [])], title="t", on=NARROW)
    (dot,) = marks(svg, "circle")
    line = next(m for m in marks(svg, "line") if m.attrib["stroke-width"] == "3")
    low, high = place(line, "x1"), place(line, "x2")
    assert (place(dot, "cx") - low) / (high - low) == pytest.approx((0.75 - 0.5) / 0.4, abs=0.01)
    said = [mark.text for mark in marks(svg, "text")]
    assert "75% (50% – 90%), 30 / 40" in said and "1 / 2, too few days" in said and "by source" not in said
    assert ET.fromstring(svg).attrib["viewBox"].split()[2] == "360"


DRAWINGS: list[Callable[[str], str]] = [
    lambda text: stacked_bars([Stack(text, {text: 1.0})], title=text, unit=text),
    lambda text: histogram([Bin(0.1, 2)], step=0.1, title=text, noun=text),
    lambda text: percentile_ranges([Percentiles(text, 1.0, 2.0, 3.0, 4)], title=text),
    lambda text: reliability_curve(
        [ReliabilityLine(name=text, bins=[ReliabilityBin(0.5, 0.5, 1)], ece=0.1, noise=0.2)], title=text
    ),
    lambda text: stacked_bars([], title=text, unit=text),
    lambda text: share_ranges([(text, [Share(text, 1, 2, (0.1, 0.9))])], title=text),
    lambda text: study_panels(
        [Curve(text, 1, [CurvePoint(0, 0.0, None, None, 1), CurvePoint(5, 0.1, 0.0, 0.2, 1)])], title=text
    ),
]
KNOWN = {"svg", "title", "desc", "rect", "text", "line", "circle", "path", "g"}


@pytest.mark.parametrize("draw", DRAWINGS)
@given(text=st.text(max_size=40))
@example(HOSTILE)
def test_every_text_stays_text_in_a_drawing_that_parses_and_says_what_it_is(
    draw: Callable[[str], str], text: str
) -> None:
    root = ET.fromstring(draw(text))
    assert root.attrib["role"] == "img" and root.attrib["aria-label"]
    assert root.find(SVG + "title") is not None and root.find(SVG + "desc") is not None
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= KNOWN
    assert not [name for element in root.iter() for name in element.attrib if name.lower().startswith("on")]
    assert text != HOSTILE or "alert(1)" in str(root.findtext(SVG + "title"))


def test_nothing_is_drawn_of_nothing_and_the_drawing_says_so() -> None:
    for svg in (
        stacked_bars([], title="t", unit="USD"),
        stacked_bars([Stack("d", {"a": 0.0})], title="t", unit="USD"),
        histogram([], step=0.1, title="t", noun="n"),
        percentile_ranges([], title="t"),
        reliability_curve([], title="t"),
        study_panels([Curve("g", 3, [CurvePoint(0, None, None, None, 0)])], title="t"),
    ):
        assert len(marks(svg, "text")) == 1 and not marks(svg, "rect") + marks(svg, "circle")
    assert "no outcomes yet" in reliability_curve([], title="t")


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_axes_reach_over_their_largest_value_in_few_round_steps(top: float) -> None:
    marks_ = ticks(top)
    assert marks_[0] == 0 and marks_[-1] >= top * 0.99 and 2 <= len(marks_) <= 8


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_can_be_told_from_its_page() -> None:
    for light, dark in COLOURS:
        assert (luminance("#ffffff") + 0.05) / (luminance(light) + 0.05) >= 3
        assert (luminance(dark) + 0.05) / (luminance("#141414") + 0.05) >= 3
    assert "prefers-color-scheme:dark" in STYLE


def test_lines_of_a_terminal() -> None:
    assert sparkline([0, 1, 2, 4, None, math.nan]) == "▁▂▄█  "
    assert sparkline([0.0, 0.0]) == "▁▁" and sparkline([]) == ""
    assert bar(10, 10, width=4) == "████" and bar(5, 10, width=4) == "██" and bar(1, 16, width=2) == "▏"
    assert bar(None, 10) == bar(0, 10) == bar(math.nan, 10) == bar(1, 0) == ""
    assert bar(99, 10, width=3) == "███"
