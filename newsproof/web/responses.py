"""Responses of the API: JSON by msgspec, errors as ``{"error", "do"}``, and event streams with bounded buffers."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from aiokafka.errors import KafkaError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from infra.redaction import redacted
from schemas.errors import ConfigError, ContractError, NewsproofError, PermanentError, TransientError
from streams.feed.sse import Lagging

log = structlog.get_logger(__name__)

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
SEND_WITHIN_S = 20.0
"""Write timeout. A client that reads nothing for this long is disconnected; it can resume from the last id it saw."""


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """Refusal of a request: the HTTP status, the problem (``error``), and what to do (``do``)."""

    def __init__(self, status: int, error: str, do: str, **headers: str) -> None:
        super().__init__(error)
        self.status, self.error, self.do = status, error, do
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class StrictBody(BaseModel):
    """A request's body. It has no other fields."""

    model_config = ConfigDict(extra="forbid")


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response; times are RFC 3339, decimals are numbers."""
    body = _encode(value)
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a header and one line per row; None is empty.

    A text that a spreadsheet would read as a formula gets an apostrophe, so that it is shown as text (OWASP, "CSV
    Injection").
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA) else value


def csv_file(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Response:
    """Return CSV that a browser saves as newsproof-NAME.csv."""
    text = as_csv(columns, rows)
    headers = {"content-disposition": f'attachment; filename="newsproof-{name}.csv"', "cache-control": "no-store"}
    return Response(text, 200, headers, "text/csv; charset=utf-8")


_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def refusal(status: int, error: str, do: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response, with secrets redacted."""
    return as_json({"error": redacted(error), "do": redacted(do)}, status, headers)


def answer_errors(app: FastAPI, page_of_404: Callable[[Request], Response | None]) -> None:
    """Register the handlers that return every error of a request in the same form.

    ``page_of_404`` returns the page for a person at an address that does not exist; None for a program.
    """

    @app.exception_handler(Refused)
    async def _(_request: Request, exc: Refused) -> Response:
        return refusal(exc.status, exc.error, exc.do, exc.headers)

    @app.exception_handler(RequestValidationError)
    async def _(_request: Request, exc: RequestValidationError) -> Response:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in exc.errors()[:5])
        return refusal(400, f"the request is not valid: {faults}", "correct it; /docs describes the parameters")

    @app.exception_handler(HTTPException)
    async def _(request: Request, exc: HTTPException) -> Response:
        if exc.status_code == HTTPStatus.NOT_FOUND and (page := page_of_404(request)) is not None:
            return page
        do = {404: "see /docs for the addresses", 405: "use another method; see /docs"}
        words = str(exc.detail) if exc.detail else HTTPStatus(exc.status_code).phrase
        return refusal(exc.status_code, words, do.get(exc.status_code, "correct the request"), dict(exc.headers or {}))

    @app.exception_handler(NewsproofError)
    async def _(_request: Request, exc: NewsproofError) -> Response:
        return refusal(*_of_ours(exc))

    @app.exception_handler(KafkaError)
    async def _(_request: Request, exc: KafkaError) -> Response:
        log.warning("Kafka does not respond to a request", error=repr(exc)[:300])
        return refusal(503, "Kafka is not responding", "try again when it is back; /api/v1/status shows its state")

    @app.exception_handler(Exception)
    async def _(request: Request, exc: Exception) -> Response:
        log.error("internal error", path=request.url.path, exc_info=exc)
        return refusal(500, "internal error in Newsproof", "try again; the log of the web service shows the cause")


def _of_ours(exc: NewsproofError) -> tuple[int, str, str]:
    error, _, do = str(exc).partition(": ")
    status = {TransientError: 503, ContractError: 400, PermanentError: 400, ConfigError: 409}.get(type(exc), 400)
    return status, error, do or ("try again" if status == 503 else "correct the request")


class Events(Response):
    """A stream of server-sent events.

    ``chunks`` yields the data to send. While it waits for the client, nothing is buffered for it. If the client reads
    nothing for ``SEND_WITHIN_S``, or ``chunks`` raises ``Lagging``, ``cut_off`` ends the connection. ``ended`` is
    always called.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        *,
        ending: asyncio.Event,
        ended: Callable[[], None],
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(None, 200, {"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._chunks, self._ending, self._ended = chunks, ending, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = {
            asyncio.create_task(self._pump(send)),
            asyncio.create_task(left(receive)),
            asyncio.create_task(self._ending.wait()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            failed = [e for task in done if (e := task.exception()) is not None]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._chunks.aclose()  # type: ignore[attr-defined]
            self._ended()
        if any(isinstance(e, TimeoutError | Lagging) for e in failed):
            log.info("a slow client is disconnected; it can resume", client=scope.get("client"))
            cut_off(scope)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):  # until the server notices: it would report a response without an end
                    await left(receive)
        elif failed:
            raise failed[0]
        else:
            async with asyncio.timeout(SEND_WITHIN_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        async with asyncio.timeout(SEND_WITHIN_S):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for chunk in self._chunks:
            async with asyncio.timeout(SEND_WITHIN_S):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def left(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def cut_off(scope: Scope) -> None:
    """Abort the connection and drop its unsent data."""
    cut = scope.get("extensions", {}).get("newsproof.cut_off")
    if cut is not None:
        cut()
