from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from infra.models.call_costs import Prices
from infra.models.gemini import GeminiModel
from infra.models.gemini_client import GeminiClient, quota_day_left_s
from schemas.effects import CallModel, Failure, ModelReply
from schemas.errors import ConfigError, PermanentError, TransientError
from tests.infra.fakes import gemini as fake
from tests.infra.fakes.gemini import ASK, FORCED, PLAN, STRUCTURED, gemini
from tests.infra.fakes.server import Behaviour, FakeServer, Flood, HangUp, Say, StaySilent

INVALID: list[tuple[str, Behaviour, CallModel]] = [
    ("unexpected call", fake.reply(finish="UNEXPECTED_TOOL_CALL"), FORCED),
    ("malformed response", fake.reply(finish="MALFORMED_RESPONSE"), ASK),
    ("other", fake.text("x", finish="OTHER"), ASK),
    ("continuation", fake.text("x", finish="CONTINUATION", candidate={"continuationToken": "dG9r"}), ASK),
    ("empty JSON", fake.text(""), STRUCTURED),
    ("deep JSON", fake.text("[" * 900), STRUCTURED),
    ("a function out of nowhere", fake.call(PLAN.name, {}), ASK),
]


@pytest.mark.parametrize(("behaviour", "effect"), [i[1:] for i in INVALID], ids=[i[0] for i in INVALID])
async def test_a_useless_answer_is_worth_another_try_and_its_cost_is_not_lost(
    behaviour: Behaviour, effect: CallModel
) -> None:
    async with gemini(behaviour) as (model, server):
        answer = await model.perform(effect)
    assert len(server.requests) == 1
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.reply.retryable) == ("invalid_output", True)
    assert answer.usage_output_tokens == 200
    assert answer.cost_usd is not None
    assert answer.cost_usd > 0


async def test_a_call_that_ends_at_its_limit_is_cut_which_the_step_mends_and_its_cost_is_not_lost() -> None:
    async with gemini(fake.call(PLAN.name, {}, finish="MAX_TOKENS")) as (model, _):
        answer = await model.perform(FORCED)
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.reply.retryable) == ("cut", False)
    assert "500 tokens" in answer.reply.message and "MODEL_OPTIONS=triage=max_output_tokens" in answer.reply.message
    assert answer.cost_usd is not None and answer.cost_usd > 0


@pytest.mark.parametrize("reason", ["PROHIBITED_CONTENT", "SPII", "LANGUAGE", "BLOCKLIST"])
async def test_a_refusal_is_permanent_and_its_cost_is_not_lost(reason: str) -> None:
    async with gemini(fake.reply(finish=reason)) as (model, _):
        answer = await model.perform(ASK)
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.reply.retryable) == ("refused", False)
    assert answer.cost_usd is not None
    assert answer.cost_usd > 0


MALFORMED_BODIES = [
    b"",
    b"<html>busy</html>",
    b"{",
    b"[]",
    b"7",
    b'"ok"',
    b"null",
    b"{}",
    b'{"candidates": "none"}',
    b'{"candidates": [7]}',
    b'{"candidates": [{"content": {"parts": [{"text": 7}]}}]}',
    b'{"candidates": [{"content": {"parts": [{"functionCall": {"args": []}}]}}]}',
    b'{"usageMetadata": {"promptTokenCount": "many"}}',
    b"[" * 100_000,
    b'{"candidates": ' + b"9" * 5000 + b"}",
    b"\xff\xfe\x00",
]


# What goes wrong


@pytest.mark.parametrize(
    ("behaviour", "kind", "transient", "hint"),
    [
        (fake.error(400, "INVALID_ARGUMENT", "bad schema"), "invalid_request", False, "bad schema"),
        (fake.error(401, "UNAUTHENTICATED"), "auth", False, "GEMINI_API_KEY"),
        (fake.error(403, "PERMISSION_DENIED"), "auth", False, "GEMINI_API_KEY"),
        (fake.error(404, "NOT_FOUND"), "invalid_request", False, "MODEL_LIGHT or MODEL_HEAVY"),
        (fake.error(403, "PERMISSION_DENIED", fake.closed()), "not_open", False, "newsproof doctor --live"),
        (
            fake.error(404, "NOT_FOUND", "models/gemini-2.5-pro-max is not found"),
            "invalid_request",
            False,
            "GEMINI_BASE_URL",
        ),
        (
            fake.error(403, "PERMISSION_DENIED", f"{fake.closed()} blocked", fake.BLOCKED_KEY),
            "auth",
            False,
            "GEMINI_API_KEY",
        ),
        (Say("繁忙".encode("gbk"), status=503), "unavailable", True, "unavailable"),
        (Flood(status=503), "unavailable", True, "unavailable"),
        (Say([{"error": {"code": 429}}], status=429), "rate_limit", True, "rate limit"),
        (Say({"error": "plain words"}, status=503), "unavailable", True, "unavailable"),
        (fake.error(429, "RESOURCE_EXHAUSTED", "m", {"retryDelay": "soons"}), "rate_limit", True, "rate limit"),
    ],
)
async def test_a_status_becomes_a_kind_with_a_way_out(
    behaviour: Behaviour, kind: str, transient: bool, hint: str
) -> None:
    async with gemini(behaviour) as (model, server):
        with pytest.raises(TransientError if transient else PermanentError) as caught:
            await model.perform(ASK)
    assert caught.value.kind == kind
    assert hint in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(server.requests) == 1
    assert type(caught.value.__cause__).__module__.startswith("google.genai")


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (datetime(2026, 11, 23, 5, tzinfo=UTC), 3.0),
        (datetime(2026, 7, 1, 6, 59, 59, tzinfo=UTC), 1 / 3600),
        (datetime(2026, 7, 1, 7, tzinfo=UTC), 24.0),
        (datetime(2026, 11, 1, 7, 30, tzinfo=UTC), 24.5),
        (datetime(2026, 3, 8, 8, 30, tzinfo=UTC), 22.5),
    ],
    ids=["winter", "last second", "first second", "the day of 25 hours", "the day of 23 hours"],
)
def test_a_quotas_day_ends_at_midnight_in_california(now: datetime, hours: float) -> None:
    assert quota_day_left_s(now) == pytest.approx(hours * 3600)


@pytest.mark.parametrize(("status", "effect"), [(200, ASK), (200, STRUCTURED), (301, ASK), (400, ASK), (503, ASK)])
async def test_no_vendor_exception_passes_untranslated_whatever_body_comes_with_a_status(
    status: int, effect: CallModel
) -> None:
    async with gemini(*(Say(body, status=status) for body in MALFORMED_BODIES)) as (model, _):
        for body in MALFORMED_BODIES:
            try:
                answer = await model.perform(effect)
            except (TransientError, PermanentError) as ours:
                kind, message = ours.kind, str(ours)
            else:
                assert isinstance(answer.reply, Failure), body
                kind, message = answer.reply.kind, answer.reply.message
                assert (kind, answer.reply.retryable, answer.cost_usd) == ("invalid_output", True, None), body
            assert kind != "internal" and message.isprintable(), body


async def test_json_too_deep_for_the_client_library_is_invalid_output() -> None:
    async with gemini(fake.text("[" * 50_000)) as (model, _):
        answer = await model.perform(STRUCTURED)
    assert isinstance(answer.reply, Failure) and answer.reply.kind == "invalid_output"


async def test_a_call_that_is_cancelled_ends_as_cancelled_and_the_next_one_works() -> None:
    async with gemini(StaySilent(), fake.text("ok")) as (model, server):
        call = asyncio.create_task(model.perform(ASK))
        async with asyncio.timeout(30):
            while not server.requests:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        answer = await model.perform(ASK)
    assert isinstance(answer.reply, ModelReply)
    assert len(server.requests) == 2


async def test_calls_one_after_another_share_a_connection() -> None:
    async with gemini(fake.text("ok")) as (model, server):
        for _ in range(3):
            await model.perform(ASK)
    assert (len(server.requests), server.connections) == (3, 1)


async def test_a_closed_port_is_a_network_failure() -> None:
    async with FakeServer(HangUp()) as server:
        url = server.url
    model = GeminiModel(GeminiClient(api_key="k", base_url=url, timeout_s=30.0), model="m", prices=Prices())
    with pytest.raises(TransientError) as caught:
        await model.perform(ASK)
    assert caught.value.kind == "network"
    await model.close()


async def test_closing_twice_is_harmless_and_a_later_call_says_so() -> None:
    async with gemini(fake.text("ok")) as (model, server):
        await model.close()
        await model.close()
        with pytest.raises(PermanentError) as caught:
            await model.perform(ASK)
    assert (caught.value.kind, server.requests) == ("internal", [])


@pytest.mark.parametrize(("key", "address"), [("", None), ("“k”", None), ("k", "gateway.local"), ("k", "http://[")])
def test_settings_that_cannot_work_are_refused_at_the_start(key: str, address: str | None) -> None:
    with pytest.raises(ConfigError, match="GEMINI_API_KEY" if address is None else "GEMINI_BASE_URL"):
        GeminiClient(api_key=key, base_url=address)


async def test_the_environment_cannot_send_the_key_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "another-key-of-google")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with gemini(fake.text("ok")) as (model, server):
        await model.perform(ASK)
    assert server.requests[0].path.startswith("/v1/models/")
    assert server.requests[0].headers["x-goog-api-key"] == "AIza-secret"
