"""Charts of the standard report as images: the drawings of ``newsproof report --html``, in fixed colours and the page's words.

An image cannot use the page's colours, so the variables of :data:`newsproof.report.charts.STYLE` are replaced here.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Literal

import msgspec

from newsproof.report.charts import NARROW, STYLE, WIDE, Canvas

Theme = Literal["light", "dark"]
_USED = re.compile(r"var\((--[a-z0-9]+),[^)]*\)")
_SET = re.compile(r"(--[a-z0-9]+):([^;}]+)")
_LIGHT, _DARK = (dict(_SET.findall(part)) for part in STYLE.split("@media"))


Size = Literal["wide", "narrow"]
Language = Literal["en", "zh"]
_TERM = re.compile(r'^  "term\.([^"]+)": ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)


def in_colours(svg: str, theme: Theme) -> str:
    """Return a drawing in the colours of a theme."""
    colours = _DARK if theme == "dark" else _LIGHT
    return _USED.sub(lambda used: colours[used.group(1)], svg)


def canvas(size: Size, language: Language) -> Canvas:
    """Return what to draw on for a reader of the page; what has no translation stands as it is in English."""
    on = NARROW if size == "narrow" else WIDE
    return on if language == "en" else msgspec.structs.replace(on, say=_in_chinese)


def _in_chinese(word: str) -> str:
    return _chinese().get(word, word.replace("_", " "))


@lru_cache(maxsize=1)
def _chinese() -> dict[str, str]:
    """The page's own words of the domain, so that a chart calls nothing by another name than the table below it."""
    texts = resources.files("newsproof.web").joinpath("static/js/texts/zh.js").read_text("utf-8")
    return {name: json.loads(said) for name, said in _TERM.findall(texts)}
