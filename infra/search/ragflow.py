"""RAGFlow search over httpx, in the desk's own knowledge base. One ``Search`` is one ``POST /api/v1/retrieval``.

Wire format and codes: https://ragflow.io/docs (HTTP API, "Retrieve chunks"; "Error codes"). An error usually comes as
HTTP 200 with a ``code`` other than 0. Chunks have no date and no public URL: their URL here is
``ragflow://<dataset>/<document>?chunk=<id>``, so a whole knowledge base counts as one source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx

from infra.http import quoted
from infra.http_json import Service, error_message, json_object, refused
from infra.ports import Answer
from infra.search.adapter import SearchAdapter
from infra.search.results import score_of
from infra.texts import cut_utf8, storable_text
from schemas.effects import Search
from schemas.errors import ConfigError, PermanentError, TransientError
from schemas.evidence import SearchResult
from schemas.topics import MAX_BODY_BYTES

SIMILARITY_THRESHOLD = 0.6
_RAGFLOW = Service(name="RAGFlow", address_setting="RAGFLOW_ENDPOINT", key_setting="RAGFLOW_API_KEY")
_TRY_AGAIN = frozenset({100, 103, 105, 106})
"""Transient codes: exception, operation error, connection error, still running."""
_KEY_CODES = frozenset({108, 109, 401, 403})


class RagflowSearch(SearchAdapter):
    """The desk's own knowledge base. A missing dataset is not_configured."""

    provider = "ragflow"
    service = _RAGFLOW
    free = "own knowledge base"

    def __init__(
        self,
        *,
        endpoint: str,
        api_key: str,
        dataset_ids: Sequence[str],
        similarity_threshold: float = SIMILARITY_THRESHOLD,
        **given: Any,
    ) -> None:
        """As :class:`SearchAdapter`. Chunks below ``similarity_threshold`` (0-1) are not requested.

        Raises:
            ConfigError: the key or the address is invalid, or no dataset is named.
        """
        self._datasets = [id.strip() for id in dataset_ids if id.strip()]
        if not self._datasets:
            raise ConfigError(
                "RAGFLOW_DATASET_ID is empty: write the id of the dataset to search, from its page's address"
            )
        self._threshold = similarity_threshold
        super().__init__(endpoint, api_key=api_key, **given)

    async def _ask(self, effect: Search, query: str) -> httpx.Response:
        body = {
            "question": query,
            "dataset_ids": self._datasets,
            "page": 1,
            "page_size": max(1, min(effect.max_results, 100)),
            "similarity_threshold": self._threshold,
        }
        return await self._client.send("POST", "/api/v1/retrieval", json=body)

    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        if response.status_code != 200:
            raise refused(_RAGFLOW, response.status_code, error_message(response, "message"), response.headers)
        body = json_object(response, _RAGFLOW)
        code = body.get("code")
        if isinstance(code, bool) or not isinstance(code, int):
            raise self._useless("has no code")
        if code != 0:
            raise _translate(code, quoted(body.get("message") or "no reason given", 200))
        data = body.get("data")
        chunks = data.get("chunks") if isinstance(data, dict) else None
        if not isinstance(chunks, list):
            raise self._useless("has no list of chunks")
        return self._answer(chunks, _read_chunk, query, limit=effect.max_results)


def _read_chunk(chunk: Any, _query: str) -> SearchResult | None:
    if not isinstance(chunk, dict):
        return None
    score, content = score_of(chunk.get("similarity")), chunk.get("content")
    title, dataset = chunk.get("document_keyword"), chunk.get("dataset_id") or chunk.get("kb_id")
    named = [chunk.get("document_id"), chunk.get("id")]
    if score is None or not all(isinstance(value, str) and value for value in (content, title, dataset, *named)):
        return None
    document, number, host = (quote(storable_text(str(value)), safe="") for value in (*named, str(dataset).lower()))
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


def _translate(code: int, detail: str) -> TransientError | PermanentError:
    if code in _KEY_CODES:
        return refused(_RAGFLOW, 401, f"code {code}, {detail}")
    if code in _TRY_AGAIN or code >= 500:
        return TransientError(f"RAGFlow failed (code {code}: {detail})", kind="unavailable", status=code)
    if code in {102, 404} and any(word in detail.lower() for word in ("dataset", "chunk", "knowledge")):
        text = f"RAGFlow cannot search the dataset (code {code}: {detail}); correct RAGFLOW_DATASET_ID, or let it be parsed"
        return PermanentError(text, kind="not_configured", status=code)
    text = f"RAGFlow does not take this search (code {code}: {detail}); correct the query or RAGFLOW_DATASET_ID"
    return PermanentError(text, kind="invalid_request", status=code)
