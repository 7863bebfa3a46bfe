"""Vectors of providers: one request a text, on the real wire shapes; what is no vector is refused, and its price is not lost."""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

import pytest

from infra.http import UselessAnswerError
from infra.models.embeddings import embedder_of
from infra.models.embeddings.hashing import length, quantised
from infra.models.embeddings.port import packed, unpacked
from infra.settings import Settings
from schemas.effects import Failure
from schemas.errors import ConfigError, PermanentError
from tests.infra.fakes import gemini as google
from tests.infra.fakes import openai as other
from tests.infra.fakes.embeddings import DIMENSIONS, gemini, gemini_vectors, numbers, openai, openai_vectors
from tests.infra.fakes.server import Behaviour, Say

HALF = numbers(0.6, -0.8)
WHOLE = [95, -127, *(0 for _ in range(DIMENSIONS - 2))]
"""The same direction in whole numbers."""
Made = AbstractAsyncContextManager[Any]


def made(name: str, *script: Behaviour, **settings: Any) -> Made:
    return (gemini if name == "gemini" else openai)(*script, **settings)


async def test_gemini_is_asked_once_for_one_text_of_so_many_numbers() -> None:
    async with gemini(gemini_vectors(HALF, tokens=1000)) as (embedder, server):
        found = await embedder.embed("USDC 脱锚")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/models/gemini-embedding-001:batchEmbedContents")
    assert request.headers["x-goog-api-key"] == "AIza-secret"
    (asked,) = request.json["requests"]
    assert asked["content"]["parts"] == [{"text": "USDC 脱锚"}]
    assert (asked["outputDimensionality"], asked["taskType"]) == (DIMENSIONS, "SEMANTIC_SIMILARITY")
    assert found.vector == WHOLE
    assert (found.cost_usd, found.input_tokens) == (Decimal("0.00015"), 1000)
    assert found.cost_source.startswith("genai-prices")
    assert embedder.rows == "gemini:gemini-embedding-001:64"


async def test_a_later_model_of_gemini_is_not_told_what_it_does_not_take() -> None:
    async with gemini(gemini_vectors(HALF), model="gemini-embedding-2") as (embedder, server):
        await embedder.embed("USDC")
    assert "taskType" not in server.requests[0].body.decode()


async def test_without_a_token_count_the_most_that_it_can_be_is_the_price_and_the_record_says_so() -> None:
    async with gemini(gemini_vectors(HALF)) as (embedder, _):
        found = await embedder.embed("USDC")
        assert found.cost_usd == embedder.worst_case_usd("USDC")
    assert found.cost_source.endswith("tokens not said: at most")


async def test_an_openai_compatible_server_is_asked_for_floats_of_so_many_dimensions() -> None:
    async with openai(openai_vectors(HALF, tokens=7)) as (embedder, server):
        found = await embedder.embed("USDC 脱锚")
    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/embeddings", "Bearer sk-secret")
    assert request.json == {
        "model": "text-embedding-3-small", "input": "USDC 脱锚", "encoding_format": "float", "dimensions": DIMENSIONS,
    }  # fmt: skip
    assert (found.vector, found.input_tokens) == (WHOLE, 7)
    assert found.cost_usd is None, "the price of a server that nobody listed is unknown, not zero"


async def test_openais_own_prices_are_known() -> None:
    from infra.models.call_costs import Prices

    async with openai(openai_vectors(HALF, tokens=500_000), prices=Prices(provider="openai")) as (embedder, _):
        assert (await embedder.embed("x")).cost_usd == Decimal("0.01")


async def test_a_server_that_does_not_take_dimensions_is_asked_without_and_remembered() -> None:
    refusal = other.error(400, "this model does not support the dimensions parameter", param="dimensions")
    async with openai(refusal, openai_vectors(HALF)) as (embedder, server):
        await embedder.embed("a")
        await embedder.embed("b")
    assert ["dimensions" in r.json for r in server.requests] == [True, False, False]


BAD: list[tuple[str, Any]] = [
    ("too many", [0.1] * (DIMENSIONS + 1)),
    ("words", ["a"] * DIMENSIONS),
    ("nothing in one place", [None, *[0.1] * (DIMENSIONS - 1)]),
    ("no direction", [0.0] * DIMENSIONS),
]


@pytest.mark.parametrize("values", [b[1] for b in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("name", ["gemini", "openai"])
async def test_what_is_no_vector_of_these_dimensions_is_a_useless_answer_whose_price_is_unknown(
    name: str, values: Any
) -> None:
    say = gemini_vectors(values) if name == "gemini" else openai_vectors(values)
    async with made(name, say) as (embedder, server):
        with pytest.raises(UselessAnswerError, match=f"{DIMENSIONS} numbers") as caught:
            await embedder.embed("USDC")
    assert len(server.requests) == 1
    assert isinstance(caught.value.answer.reply, Failure)
    assert (caught.value.answer.reply.kind, caught.value.answer.cost_usd) == ("invalid_output", None)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"data": 3, "embeddings": 3}', b'{"data": [[]], "embeddings": [[]]}', b"\xff\xfe"],
)
@pytest.mark.parametrize("name", ["gemini", "openai"])
async def test_an_answer_of_another_shape_is_a_useless_answer(name: str, body: bytes) -> None:
    async with made(name, Say(body)) as (embedder, _):
        with pytest.raises(UselessAnswerError, match=r"check EMBEDDING|is not JSON|not a JSON object"):
            await embedder.embed("USDC")


@pytest.mark.parametrize(
    ("name", "say", "kind", "words"),
    [
        ("gemini", google.WRONG_KEY, "auth", "EMBEDDING_API_KEY"),
        ("openai", other.error(401), "auth", "EMBEDDING_API_KEY"),
        ("openai", other.error(402), "plan_limit", "pay"),
        ("openai", other.error(429, code="insufficient_quota"), "plan_limit", "pay"),
        ("openai", other.error(400, "too long"), "invalid_request", "EMBEDDING_MODEL"),
        (
            "openai",
            Say(status=302, headers={"location": "https://example.com"}),
            "not_configured",
            "EMBEDDING_BASE_URL",
        ),
    ],
)
async def test_what_no_second_try_would_mend_is_permanent_and_says_what_to_write(
    name: str, say: Say, kind: str, words: str
) -> None:
    own = {"key_setting": "EMBEDDING_API_KEY", "address_setting": "EMBEDDING_BASE_URL"}
    async with made(name, say, **own) as (embedder, server):
        with pytest.raises(PermanentError, match=words) as caught:
            await embedder.embed("USDC")
    assert (caught.value.kind, len(server.requests)) == (kind, 1)
    assert "secret" not in str(caught.value)


def settings(**values: object) -> Settings:
    given = {"newsproof_mode": "live", "embedding_provider": "gemini", **values}
    return Settings(_env_file=None, **given)  # type: ignore[arg-type, call-arg]


def test_only_live_mode_asks_a_provider_and_only_one_that_is_named() -> None:
    assert embedder_of(settings(newsproof_mode="offline")) is None
    assert embedder_of(settings(embedding_provider="offline", gemini_api_key="g")) is None
    named = embedder_of(settings(gemini_api_key="g", embedding_dimensions=768))
    assert named is not None
    assert named.rows == "gemini:gemini-embedding-2:768"


def test_a_provider_may_have_a_key_an_address_and_a_model_of_its_own() -> None:
    own = {"embedding_api_key": "e", "embedding_base_url": "http://127.0.0.1:1/v1", "embedding_model": "bge-m3"}
    named = embedder_of(settings(embedding_provider="openai", **own))
    assert named is not None
    assert (named.provider, named.rows) == ("openai", "openai:bge-m3:256")


def test_an_endpoint_of_ones_own_needs_no_key() -> None:
    own = {"embedding_base_url": "http://127.0.0.1:1/v1", "embedding_model": "nomic-embed-text"}
    named = embedder_of(settings(embedding_provider="openai", gemini_api_key="g", **own))
    assert named is not None and named.worst_case_usd("a") == 0


def test_a_provider_without_a_key_is_refused_and_the_text_says_which_to_set() -> None:
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY, or EMBEDDING_API_KEY"):
        embedder_of(settings(embedding_provider="openai", gemini_api_key="g"))


def test_whole_numbers_of_one_byte_keep_a_direction_to_a_hundredth() -> None:
    import numpy as np

    random = np.random.default_rng(5)
    a, b = random.normal(size=(2, 200, 256))
    b = 0.5 * a + 0.5 * b
    for x, y in zip(a, b, strict=True):
        true = float(x @ y / math.sqrt(float(x @ x) * float(y @ y)))
        one, other = quantised(x), quantised(y)
        product = sum(p * q for p, q in zip(one, other, strict=True))
        assert abs(product / (length(one) * length(other)) - true) < 0.01


def test_the_journals_form_of_a_vector_loses_nothing() -> None:
    kept = packed(WHOLE, "gemini:m:64", "USDC")
    assert kept is not None
    assert unpacked(kept) == WHOLE
    assert packed([], "gemini:m:64", "?!") is None
