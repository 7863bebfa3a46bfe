"""Inline styles by which a page hides words from people, and those by which it does not."""

from __future__ import annotations

import time

import pytest

from infra.scraping.markup import hides

pytestmark = pytest.mark.security

HIDING = [
    "display:none", "DISPLAY : NONE !important", "dis/**/play:none", r"d\69 splay:none", "visibility:collapse", "visibility: hidden",
    "content-visibility:hidden", "font-size:0", "font-size: 0.0px", "font-size:1px", "font-size:.01em", "opacity:0", "opacity: 0.01",
    "opacity:0%", "color:transparent", "color:rgba(0,0,0,0)", "color: rgb(0 0 0 / 0)", "color:#ffffff00", "-webkit-text-fill-color:transparent",
    "color:#fff;background:#fff", "background-color:white; color:white", "text-indent:-9999px", "position:absolute;left:-9999px",
    "position:fixed; top: -200vh", "margin-left:-5000px", "clip:rect(0 0 0 0)", "clip: rect(1px, 1px, 1px, 1px)", "clip-path:inset(50%)",
    "clip-path: inset(100%)", "clip-path:circle(0)", "transform:scale(0)", "transform: scale(1,0)", "width:0;overflow:hidden",
    "max-height:0px;overflow-y:hidden", "height:0; overflow: hidden",
]  # fmt: skip
SHOWING = [
    "", ";;", "display:block", "visibility:visible", "font-size:12px", "font-size:0.9em", "font-size:10px", "font-size:100%", "opacity:0.9",
    "opacity:1", "color:#000", "color:#fff;background:#000", "color:rgba(0,0,0,0.8)", "color:rgb(10,20,30)", "color:#ff0", "color:rgb(255,0,0)", "color:rgb(0 0 0)", "text-indent:2em",
    "text-indent:-1em", "left:-5px", "margin-left:-15px", "width:0", "height:100px;overflow:hidden", "transform:scale(1.5)",
    "transform:rotate(0deg)", "clip-path:inset(5%)", "background:#fff", "top:0;left:0", "max-width:0.5em;overflow:auto", "color:#123450a1",
]  # fmt: skip


@pytest.mark.parametrize("style", HIDING)
def test_a_style_that_hides_is_seen_through(style: str) -> None:
    assert hides(style)


@pytest.mark.parametrize("style", SHOWING)
def test_a_style_that_shows_is_left_alone(style: str) -> None:
    assert not hides(style)


@pytest.mark.parametrize(
    "piece", ["/*", "/* *", "\\6", "font-size:0", "color:rgba(", ",0", ";", "transform:scale(", "1"]
)
def test_a_hostile_style_is_read_in_time_that_grows_with_its_length_alone(piece: str) -> None:
    took = []
    for size in (20_000, 80_000):
        style = "color:rgba(" + piece * (size // len(piece))
        before = time.thread_time()
        hides(style)
        took.append(time.thread_time() - before)
    assert took[1] < max(0.1, 10 * took[0])
