"""Inline styles by which a page hides words from people, and those by which it does not."""

from __future__ import annotations

import pytest

from infra.pages.markup import hides

pytestmark = pytest.mark.security

HIDING = [
    "display:none", "DISPLAY : NONE !important", "dis/**/play:none", r"d\69 splay:none", "visibility:collapse", "visibility: hidden",
    "content-visibility:hidden", "font-size:0", "font-size: 0.0px", "font-size:1px", "font-size:.01em", "opacity:0", "opacity: 0.01",
    "opacity:0%", "color:transparent", "color:rgba(0,0,0,0)", "color: rgb(0 0 0 / 0)", "color:#ffffff00", "-webkit-text-fill-color:transparent",
    "color:#fff;background:#fff", "background-color:white; color:white", "text-indent:-9999px", "position:absolute;left:-9999px",
    "position:fixed; top: -200vh", "margin-left:-5000px", "clip:rect(0 0 0 0)", "clip: rect(1px, 1px, 1px, 1px)", "clip-path:inset(50%)",
    "clip-path: inset(100%)", "clip-path:circle(0)", "transform:scale(0)", "transform: scale(1,0)", "width:0;overflow:hidden",
    "max-height:0px;overflow-y:hidden", "height:0; overflow: hidden", "height:0;overflow:hidden;padding:0 1px",
    # What a browser cannot read it passes by, and the declaration before it holds.
    "display:none;display:x", "display:none!important;display:block", "display:none ! important;display:block", "font-size:0;font-size:bad",
    "color:transparent;color:var(--x)", "opacity:0;opacity:bad", "left:-9999px;left:bad", "font:0/0 a", "font: 0 / 0 a", "font:italic 0px Arial",
    "font:1px/1 Arial", "filter:opacity(0)", "filter: blur(1px) opacity(2%)", "left:-999px", "text-indent:-999px", "margin-top:-9999px",
    "right:-9999px", "left:-100vw", "text-indent:-100%", "display:none;/*", "display:none;/* never closed",
]  # fmt: skip
SHOWING = [
    "", ";;", "display:block", "visibility:visible", "font-size:12px", "font-size:0.9em", "font-size:10px", "font-size:100%", "opacity:0.9",
    "opacity:1", "color:#000", "color:#fff;background:#000", "color:rgba(0,0,0,0.8)", "color:rgb(10,20,30)", "color:#ff0", "color:rgb(255,0,0)", "color:rgb(0 0 0)", "text-indent:2em",
    "text-indent:-1em", "left:-5px", "margin-left:-15px", "width:0", "height:100px;overflow:hidden", "transform:scale(1.5)",
    "transform:rotate(0deg)", "clip-path:inset(5%)", "background:#fff", "top:0;left:0", "max-width:0.5em;overflow:auto", "color:#123450a1",
    # Layouts that are everywhere: columns put in the middle, sections over each other, a box for a video.
    "margin-left:-100px", "position:absolute;left:50%;width:960px;margin-left:-480px", "margin-left:-1000px;width:2000px;left:50%",
    "margin-top:-120px", "margin-top:-10vh", "margin-left:-50vw", "margin-top:-100%", "right:-100px", "top:-300px", "left:-200px", "left:-50%",
    "overflow:hidden;height:0;padding-bottom:56.25%", "height:0;overflow:hidden;padding:0 0 75%", "max-height:0;overflow:hidden;padding-top:40px",
    "font:12px/0 Arial", "font: bold 100% / 1.5 'A 0', serif", "font:inherit", "filter:opacity(0.8)", "filter:opacity()", "filter:none",
]  # fmt: skip


@pytest.mark.parametrize("style", HIDING)
def test_a_style_that_hides_is_seen_through(style: str) -> None:
    assert hides(style)


@pytest.mark.parametrize("style", SHOWING)
def test_a_style_that_shows_is_left_alone(style: str) -> None:
    assert not hides(style)


def test_a_style_that_is_too_long_to_judge_counts_as_one_that_hides() -> None:
    assert hides("color:#000;" * 400) and not hides("color:#000;" * 300)
