"""Situations of single searches: what they find, what they charge, and why they refuse."""

from __future__ import annotations

from typing import Any

from schemas.effects import SearchReply
from tests.conformance.model_rows import edited, raw
from tests.conformance.open_searches import gdelt_article
from tests.conformance.rows import MALFORMED, USELESS, Must, Row, failing, good, say
from tests.conformance.server import Situation
from tests.infra.fakes.searching import (
    TOO_FAST,
    arxiv_error,
    bocha_error,
    bocha_page,
    feed,
    gdelt_says,
    paper,
    ragflow_chunk,
    ragflow_error,
    searxng_page,
)
from tests.infra.fakes.server import Say
from tests.infra.fakes.tavily import error as tavily_error
from tests.infra.fakes.tavily import item

PAID_UP = Must("plan_limit", cost="nothing", breaker="opens")
THROTTLE = Must("rate_limit", again=True, cost="nothing", breaker="opens")
NO_REQUEST = Must("invalid_request", cost="nothing")


def found(*items: Any, **more: Any) -> Situation:
    """Return these results."""
    return lambda server, request: server.found(request, *items, **more)


def results(count: int) -> Any:
    return lambda reply: isinstance(reply, SearchReply) and len(reply.results) == count


def dated(reply: Any) -> bool:
    return isinstance(reply, SearchReply) and all(r.published_at is not None for r in reply.results)


TAVILY = ("tavily",)
TAVILY_ROWS = (
    Row("nothing found", TAVILY, "an empty list: it looked, and is paid", Must(), found(), reply=results(0)),
    Row("depth advanced", TAVILY, "results at two credits", Must(), good, ask="advanced", reply=results(2)),
    Row("domains of one's own", TAVILY, "results within include_domains", Must(), good, ask="domains"),
    Row("from a day on", TAVILY, "results from start_date on", Must(), good, ask="since"),
    Row(
        *("news", TAVILY, "results with published_date, which only topic news has"),
        Must(),
        good,
        ask="news",
        reply=dated,
    ),
    Row("no usage", TAVILY, "no credits named: those of the depth are taken", Must(), found(item(), usage=None)),
    Row(
        *("one result malformed", TAVILY, "a good result among a number, one without a title and one without a link"),
        Must(),
        found(7, item(title=None), item(url="javascript:alert(1)"), item()),
        reply=results(1),
    ),
    Row("all results malformed", TAVILY, "results, none of which can be read", MALFORMED, found(7, item(title=None))),
    Row("no list of results", TAVILY, "an object without results", USELESS, found(item(), results=None)),
    Row(
        *("NaN", TAVILY, "NaN for a score: that result is left out"),
        Must(),
        raw(b'"score":0.91', b'"score":NaN'),
        reply=results(1),
    ),
    Row(
        *("huge number", TAVILY, "a score beyond every float: it counts as 1"),
        Must(),
        raw(b'"score":0.91', b'"score":' + b"9" * 400),
        reply=lambda reply: results(2)(reply) and reply.results[0].score == 1.0,
    ),
    Row(
        "plan used up",
        TAVILY,
        "432",
        PAID_UP,
        say(tavily_error(432, "This request exceeds your plan's set usage limit.")),
    ),
    Row(
        "pay-as-you-go used up",
        TAVILY,
        "433",
        PAID_UP,
        say(tavily_error(433, "This request exceeds the pay-as-you-go limit.")),
    ),
    Row(
        "bad request", TAVILY, "400", NO_REQUEST, say(tavily_error(400, "Invalid topic. Must be 'general' or 'news'."))
    ),
)
BOCHA = ("bocha",)
BOCHA_ROWS = (
    Row("nothing found", BOCHA, "no pages: it looked, and is paid", Must(), found(), reply=results(0)),
    Row("from a day on", BOCHA, "results of a freshness from day to day", Must(), good, ask="since"),
    Row("domains of one's own", BOCHA, "results within include", Must(), good, ask="domains"),
    Row(
        "balance used up",
        BOCHA,
        "403: not enough money, no wrong key",
        PAID_UP,
        say(bocha_error(403, "You do not have enough money")),
    ),
    Row(
        *("error in a good status", BOCHA, "200 whose body says 429"),
        THROTTLE,
        say(bocha_error(429, "You have reached the request limit", status=200)),
    ),
    Row("no code", BOCHA, "200 without a code", USELESS, edited(lambda body: body.pop("code"))),
    Row("all results malformed", BOCHA, "pages, none of which can be read", MALFORMED, found(7, bocha_page(name=None))),
)
RAGFLOW = ("ragflow",)
RAGFLOW_ROWS = (
    Row("nothing found", RAGFLOW, "no chunks", Must(), found(), reply=results(0)),
    Row(
        *("dataset of another", RAGFLOW, "200 with code 102: You don't own the dataset"),
        Must("not_configured", cost="nothing", says=("RAGFLOW_DATASET_ID",)),
        good,
        settings={"dataset_ids": ["another"]},
        refused=1,
    ),
    Row(
        *("its own trouble", RAGFLOW, "200 with code 100"),
        Must("unavailable", again=True, cost="nothing", breaker="counts"),
        say(ragflow_error(100, "ConnectionTimeout('Connection timed out')")),
    ),
    Row(
        "all chunks malformed",
        RAGFLOW,
        "chunks, none of which can be read",
        MALFORMED,
        found(7, ragflow_chunk(similarity="x")),
    ),
    Row("NaN", RAGFLOW, "NaN for a similarity: that chunk is left out", MALFORMED, raw(b"0.9669", b"NaN")),
)
ARXIV = ("arxiv",)
BOMB = b'<?xml version="1.0"?><!DOCTYPE feed [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><feed>&b;</feed>'
ARXIV_ROWS = (
    Row("nothing found", ARXIV, "a feed without entries", Must(), found(), reply=results(0)),
    Row(
        "error in a good status",
        ARXIV,
        "200 with one entry titled Error",
        NO_REQUEST,
        say(arxiv_error("malformed id", status=200)),
    ),
    Row("throttled in a good status", ARXIV, "200 with the text Rate exceeded.", THROTTLE, say(Say(b"Rate exceeded."))),
    Row("entities", ARXIV, "a document type with entities, which could grow without end", USELESS, say(Say(BOMB))),
    Row(
        "UTF-16",
        ARXIV,
        "the feed in UTF-16, in which such words look different",
        USELESS,
        say(Say(feed(paper()).body.decode().encode("utf-16"))),
    ),
    Row(
        "one entry malformed",
        ARXIV,
        "an entry without a summary beside a good one",
        Must(),
        found(paper(summary=""), paper()),
        reply=results(1),
    ),
)
GDELT = ("gdelt",)
GDELT_ROWS = (
    Row("nothing found", GDELT, "an empty object", Must(), found(), reply=results(0)),
    Row("dated", GDELT, "seendate as 20261122T101500Z", Must(), good, reply=dated),
    Row(
        "throttled in a good status",
        GDELT,
        "200 with plain words: one request every 5 seconds",
        THROTTLE,
        say(gdelt_says(TOO_FAST)),
    ),
    Row("throttled", GDELT, "429 with plain words", THROTTLE, say(gdelt_says(TOO_FAST, 429))),
    Row(
        "query refused",
        GDELT,
        "200 with plain words: the query was too short or too long",
        NO_REQUEST,
        say(gdelt_says("Your query was too short or too long.")),
    ),
    Row("domains of one's own", GDELT, "articles within domainis:", Must(), good, ask="domains"),
    Row(
        *("before its window", GDELT, "nothing: a case of before the last three months is not searched"),
        Must("invalid_request", cost="nothing", says=("three months",)),
        good,
        ask="long ago",
        requests=0,
    ),
    Row(
        *("stray backslash", GDELT, "a title with a backslash that JSON does not know: it is kept"),
        Must(),
        raw(b"depeg rumour", rb"depeg \rumour \x"),
        reply=results(1),
    ),
    Row(
        "one article malformed",
        GDELT,
        "an article without a title beside a good one",
        Must(),
        found(gdelt_article(title=""), gdelt_article()),
        reply=results(1),
    ),
)
SEARXNG = ("searxng",)
SEARXNG_ROWS = (
    Row("nothing found", SEARXNG, "an empty list", Must(), found(), reply=results(0)),
    Row("undated", SEARXNG, "publishedDate null", Must(), found(searxng_page(publishedDate=None)), reply=results(1)),
    Row(
        *("JSON is not enabled", SEARXNG, "403 with a page of HTML, as it is installed"),
        Must("not_configured", cost="nothing", says=("settings.yml",)),
        failing(403, "403 Forbidden"),
    ),
    Row(
        *("engines silent", SEARXNG, "no results, and engines that did not answer: not the same as nothing found"),
        Must("unavailable", again=True, cost="nothing", breaker="counts"),
        edited(lambda body: body.update(results=[], unresponsive_engines=[["bing news", "timeout"]])),
    ),
)
