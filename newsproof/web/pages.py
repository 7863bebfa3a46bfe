"""Routes of the page, its assets, the login, liveness and readiness."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from newsproof.web.backend import Backend
from newsproof.web.guard import port_of, too_often
from newsproof.web.responses import Refused, as_json
from newsproof.web.tokens import Tokens

router = APIRouter(include_in_schema=False)

STATIC = Path(__file__).resolve().with_name("static")
_FOR_EVER = "public, max-age=31536000, immutable"
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


@router.get("/")
@router.get("/live")
@router.get("/publish")
@router.get("/cases")
@router.get("/case/{_rest:path}")
@router.get("/analytics")
@router.get("/research")
@router.get("/research/{_rest:path}")
@router.get("/investigations")
@router.get("/investigations/{_rest:path}")
@router.get("/backtests")
@router.get("/backtests/{_rest:path}")
@router.get("/operations")
@router.get("/sources")
@router.get("/bots")
async def page(request: Request, _rest: str = "") -> Response:
    """Return the HTML page, which is one for all views."""
    return _file(request, "index.html")


def wrong_address(request: Request) -> Response | None:
    """Return the page with status 404 for a browser, where it says that this address is wrong; None for a program."""
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return None
    body = (STATIC / "index.html").read_bytes()
    return Response(body, 404, {"cache-control": "no-store"}, "text/html; charset=utf-8")


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return the page that shows ``/openapi.json``."""
    return _file(request, "docs/index.html")


@router.get("/static/{path:path}")
async def static(request: Request, path: str) -> Response:
    return _file(request, path)


@router.get("/favicon.ico")
async def favicon(request: Request) -> Response:
    return _file(request, "favicon.svg")


def _file(request: Request, name: str) -> Response:
    try:
        file = (STATIC / name).resolve()
        there = file.is_relative_to(STATIC) and file.is_file()
    except (ValueError, OSError):  # a NUL, or a name longer than any file's
        there = False
    if not there:
        raise Refused(404, f"there is no {name[:200]}", "open / or /docs")
    known = file.stat()
    body, digest = _read(file, known.st_mtime_ns, known.st_size)
    kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    for_ever = request.query_params.get("v") == digest[:16]
    headers = {"etag": f'"{digest}"', "cache-control": _FOR_EVER if for_ever else "no-cache"}
    if digest in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    return Response(body, 200, headers, kind)


@lru_cache(maxsize=256)
def _read(file: Path, _mtime: int, _size: int) -> tuple[bytes, str]:
    body = file.read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:32]


# Login

_LOGIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Newsproof: log in</title>
<link rel="stylesheet" href="/static/css/tokens.css"><link rel="stylesheet" href="/static/docs/docs.css"></head><body><main><h1>Newsproof</h1>{said}
<form method="post"><p><label for="token">Token (WEB_TOKEN, or the content of web-token in the data directory)<br><span lang="zh">令牌（WEB_TOKEN，或数据目录中 web-token 文件的内容）</span></label></p>
<p><input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>
<p><button>Log in · <span lang="zh">登录</span></button></p></form></main></body></html>
"""


@router.get("/login")
async def login() -> Response:
    return _login_page(200, "")


@router.post("/login")
async def logged_in(request: Request, next: Annotated[str, Query(max_length=2_000)] = "/") -> Response:
    """Set the session cookie if the token is right; else count the failure against the client's address."""
    tokens: Tokens = request.app.state.tokens
    given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
    if not tokens.fits(given):
        alert = '<p class="alert" role="alert">This is not the token of this server. Check it and try again. <span lang="zh">令牌不对，请核对后重试。</span></p>'
        return too_often(tokens, request.scope) or _login_page(403, alert)
    onward = next if next.startswith("/") and not next.startswith(("//", "/\\")) else "/"
    cookie = tokens.cookie(port_of(request.scope), secure=request.scope.get("scheme") == "https")
    headers = {"set-cookie": cookie, "cache-control": "no-store"}
    return RedirectResponse(onward, 303, headers)


def _login_page(status: int, alert: str) -> Response:
    # Without a referrer, a browser sends `Origin: null` with a form, as a page of another site may.
    headers = {"cache-control": "no-store", "referrer-policy": "same-origin"}
    return Response(_LOGIN.format(said=alert), status, headers, "text/html; charset=utf-8")


# Health


@router.get("/healthz")
async def alive() -> Response:
    """Return 200 while the process runs."""
    return as_json({"alive": True})


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Return 200 if the service is ready; otherwise 503 and what it waits for."""
    backend: Backend = request.app.state.backend
    waits = backend.unready()
    return as_json({"ready": not waits, "waits_for": waits}, 503 if waits else 200)
