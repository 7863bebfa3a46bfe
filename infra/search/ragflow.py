"""RAGFlow search over httpx, in the desk's own knowledge base. One ``Search`` is one ``POST /api/v1/retrieval``.

Wire format and codes: https://ragflow.io/docs (HTTP API, "Retrieve chunks"; "Error codes"). An error usually comes as
HTTP 200 with a ``code`` other than 0. Chunks have no date and no public URL: their URL here is
``ragflow://<dataset>/<document>?chunk=<id>``, so a whole knowledge base counts as one source.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from infra.http import MAX_RESPONSE_BYTES, UselessAnswerError, quoted
from infra.http_json import Service, ServiceClient, error_message, json_object, refused
from infra.ports import Answer, Free
from infra.search.results import collected, cut_query, refuse_only_malformed, score_of
from infra.texts import cut_utf8, storable_text
from schemas.calls import ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import ConfigError, PermanentError, TransientError
from schemas.evidence import SearchResult
from schemas.topics import MAX_BODY_BYTES

SIMILARITY_THRESHOLD = 0.6
_RAGFLOW = Service(name="RAGFlow", address_setting="RAGFLOW_ENDPOINT", key_setting="RAGFLOW_API_KEY")
_FREE = {"cost_usd": Decimal(0), "cost_source": "own knowledge base"}
_TRY_AGAIN = frozenset({100, 103, 105, 106})
"""Transient codes: exception, operation error, connection error, still running."""
_KEY_CODES = frozenset({108, 109, 401, 403})


class RagflowSearch(Free):
    """Port for ``Search`` with one connection pool. Safe for concurrent searches within one event loop."""

    provider = "ragflow"
    mode: ProviderMode = "live"

    def __init__(
        self,
        *,
        endpoint: str,
        api_key: str,
        dataset_ids: Sequence[str],
        timeout_s: float = 10.0,
        similarity_threshold: float = SIMILARITY_THRESHOLD,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``timeout_s`` bounds a whole search; chunks below ``similarity_threshold`` (0-1) are not requested.

        Raises:
            ConfigError: the key or the address is invalid, or no dataset is named.
        """
        self._datasets = [one.strip() for one in dataset_ids if one.strip()]
        if not self._datasets:
            raise ConfigError(
                "RAGFLOW_DATASET_ID is empty: write the id of the dataset to search, from its page's address"
            )
        self._threshold = similarity_threshold
        self._client = ServiceClient(
            _RAGFLOW, endpoint, api_key=api_key, timeout_s=timeout_s, max_bytes=max_response_bytes
        )

    async def perform(self, effect: Search) -> Answer:
        """Search once. An empty result is an answer; an unreadable one is a ``Failure`` reply, never "no results".

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, invalid_request, not_configured (such as a missing dataset).
        """
        query = cut_query(effect.query)
        body = {
            "question": query,
            "dataset_ids": self._datasets,
            "page": 1,
            "page_size": max(1, min(effect.max_results, 100)),
            "similarity_threshold": self._threshold,
        }
        try:
            response = await self._client.send("POST", "/api/v1/retrieval", json=body)
            if response.status_code != 200:
                raise refused(_RAGFLOW, response.status_code, error_message(response, "message"), response.headers)
            return self._read(json_object(response, _RAGFLOW), effect, query)
        except UselessAnswerError as exc:
            return exc.answer

    def _read(self, body: dict[str, Any], effect: Search, query: str) -> Answer:
        code = body.get("code")
        if isinstance(code, bool) or not isinstance(code, int):
            raise UselessAnswerError("RAGFlow's answer has no code; it is asked again", spent=_FREE)
        if code != 0:
            raise _translate(code, quoted(body.get("message") or "no reason given", 200))
        data = body.get("data")
        chunks = data.get("chunks") if isinstance(data, dict) else None
        if not isinstance(chunks, list):
            raise UselessAnswerError("RAGFlow's answer has no list of chunks; it is asked again", spent=_FREE)
        found = collected(chunks, _read_chunk, self.provider, effect.max_results)
        refuse_only_malformed(found, "RAGFlow", _FREE)
        reply = SearchReply(provider=self.provider, query=query, results=found.results, truncated=found.truncated)
        return Answer(reply=reply, **_FREE)  # type: ignore[arg-type]

    async def close(self) -> None:
        await self._client.close()


def _read_chunk(chunk: Any) -> SearchResult | None:
    if not isinstance(chunk, dict):
        return None
    score, content = score_of(chunk.get("similarity")), chunk.get("content")
    title, dataset = chunk.get("document_keyword"), chunk.get("dataset_id") or chunk.get("kb_id")
    named = [chunk.get("document_id"), chunk.get("id")]
    if score is None or not all(isinstance(one, str) and one for one in (content, title, dataset, *named)):
        return None
    document, number, host = (quote(storable_text(str(one)), safe="") for one in (*named, str(dataset).lower()))
    snippet = cut_utf8(storable_text(str(content)), MAX_BODY_BYTES)
    return SearchResult(
        title=" ".join(storable_text(str(title)).split())[:500],
        url=f"ragflow://{host}/{document}?chunk={number}",
        domain=host,
        snippet=snippet,
        score=score,
        provider="ragflow",
        content_complete=len(snippet) == len(str(content)),
    )


def _translate(code: int, said: str) -> TransientError | PermanentError:
    if code in _KEY_CODES:
        return refused(_RAGFLOW, 401, f"code {code}, {said}")
    if code in _TRY_AGAIN or code >= 500:
        return TransientError(
            f"RAGFlow failed (code {code}: {said}); it is tried again", kind="unavailable", status=code
        )
    if code in {102, 404} and any(word in said.lower() for word in ("dataset", "chunk", "knowledge")):
        text = (
            f"RAGFlow cannot search the dataset (code {code}: {said}); correct RAGFLOW_DATASET_ID, or let it be parsed"
        )
        return PermanentError(text, kind="not_configured", status=code)
    text = f"RAGFlow does not take this search (code {code}: {said}); correct the query or RAGFLOW_DATASET_ID"
    return PermanentError(text, kind="invalid_request", status=code)
