"""The page beyond loopback: over TLS of its own, or behind a proxy that is named and alone is believed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from infra.settings import Settings, load_settings
from newsproof.web import server
from newsproof.web.server import server_of
from schemas.errors import ConfigError
from tests.infra.kafka.secured_kafka import make_certificates
from tests.newsproof.command import CHECKOUT, environment
from tests.newsproof.web.test_web_crafted import WHOLE, listening, rest_of
from tests.newsproof.web.test_web_guard import TOKEN, settings_of

pytestmark = pytest.mark.security
PROXIED = {"host": "desk.example", "x-forwarded-for": "192.0.2.7", "x-forwarded-proto": "https"}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """server.pem is a certificate with its key; client.crt is one whose key, client.key, is encrypted."""
    files = tmp_path_factory.mktemp("web-tls")
    make_certificates(files)
    return files


async def test_over_tls_the_session_is_secure_and_nothing_is_answered_in_the_clear(pem: Path) -> None:
    settings = settings_of(web_port=0, web_tls_cert_file=pem / "server.pem")
    trusted = ssl.create_default_context(cafile=str(pem / "authority.pem"))
    async with listening(settings) as port:
        at = settings.page_at(port)
        assert at == f"https://127.0.0.1:{port}/"
        async with httpx.AsyncClient(base_url=at, verify=trusted, trust_env=False) as http:
            done = await http.get("/", params={"token": TOKEN})
            assert (done.status_code, done.headers["location"]) == (303, "/")
            assert done.headers["set-cookie"].endswith("; Secure")
            assert (await http.get("/api/v1/status")).status_code == 200
            with pytest.raises(httpx.TransportError):
                await http.get(f"http://127.0.0.1:{port}/healthz")
        assert await checked(WEB_PORT=str(port), WEB_TLS_CERT_FILE=str(pem / "server.pem")) == 0


async def test_who_is_slow_is_cut_off_over_tls_too_from_the_greeting_to_the_goodbye(
    pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", 1.0)
    monkeypatch.setattr(server, "GOODBYE_WITHIN_S", 1.0)
    trusted = ssl.create_default_context(cafile=str(pem / "authority.pem"))
    async with listening(settings_of(web_port=0, web_tls_cert_file=pem / "server.pem")) as port:
        deaf = asyncio.create_task(asyncio.to_thread(end_without_a_goodbye, port, trusted))
        silent, halfway = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        halfway[1].write(b"\x16\x03\x01\x02\x00\x01")
        greeted = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        greeted[1].write(WHOLE[:-2])
        for reader, writer in (silent, halfway, greeted):
            assert await rest_of(reader) == b""
            writer.close()
        await deaf


def end_without_a_goodbye(port: int, trusted: ssl.SSLContext) -> None:
    """Ask, and wait for the connection's end as one who does not say that it is over."""
    connected = socket.create_connection(("127.0.0.1", port))
    with trusted.wrap_socket(connected, server_hostname="127.0.0.1") as tls:
        tls.sendall(WHOLE[:-2] + b"Connection: close\r\n\r\n")
        with socket.socket(fileno=os.dup(tls.fileno())) as bare:
            bare.settimeout(10)  # a third of what is waited for the answer to a goodbye where nobody says how long
            while bare.recv(65536):
                pass


async def checked(**settings: str) -> int:
    """The exit status of the container's health check."""
    at = {**settings, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "NEWSPROOF_MODE": "offline"}
    command = (sys.executable, "-P", str(CHECKOUT / "infra" / "docker" / "healthy.py"), "web")
    return await (await asyncio.create_subprocess_exec(*command, env=environment(**at))).wait()


BAD_FILES: dict[str, tuple[dict[str, str], str]] = {
    "a certificate that is not there": ({"cert": "nothing.pem"}, "WEB_TLS_CERT_FILE=.*nothing.pem cannot be used"),
    "a certificate that is none": ({"cert": "rubbish.pem"}, "WEB_TLS_CERT_FILE=.*rubbish.pem cannot be used"),
    "a directory": ({"cert": "."}, "WEB_TLS_CERT_FILE=.* cannot be used"),
    "a certificate without its key": ({"cert": "client.crt"}, "WEB_TLS_CERT_FILE=.*client.crt cannot be used"),
    "the key of another one": ({"cert": "client.crt", "key": "server.pem"}, "WEB_TLS_KEY_FILE=.*server.pem cannot be used"),
    "an encrypted key": ({"cert": "client.crt", "key": "client.key"}, "WEB_TLS_KEY_FILE=.*client.key cannot be used"),
    "a key alone": ({"key": "server.pem"}, "WEB_TLS_KEY_FILE is set without WEB_TLS_CERT_FILE: set both"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_files_that_cannot_be_used_are_refused_by_the_names_of_their_settings(
    pem: Path, files: dict[str, str], said: str
) -> None:
    (pem / "rubbish.pem").write_text("-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")
    settings = settings_of(**{f"web_tls_{name}_file": pem / file for name, file in files.items()})
    with pytest.raises(ConfigError, match=said):
        server_of(None, settings)


async def answers(settings: Settings, *asked: dict[str, str]) -> list[httpx.Response]:
    """What a server on loopback answers to requests for the status with these headers, and at last to a login's exchange."""
    bearer = {"authorization": f"Bearer {TOKEN}"}
    async with listening(settings) as port, httpx.AsyncClient(base_url=settings.page_at(port), trust_env=False) as http:
        said = [await http.get("/api/v1/status", headers={**bearer, **headers}) for headers in asked]
        return [*said, await http.get("/", params={"token": TOKEN}, headers=asked[0])]


async def test_a_proxy_that_is_named_is_believed_who_asks_and_how() -> None:
    other = {**PROXIED, "x-forwarded-for": "192.0.2.8, 192.0.2.9"}
    settings = settings_of(web_port=0, web_requests_per_minute=2, web_trusted_proxy="10.0.0.0/8, 127.0.0.1")
    *said, exchanged = await answers(settings, PROXIED, PROXIED, PROXIED, other)
    assert [one.status_code for one in said] == [200, 200, 429, 200], "rates are those of the client behind the proxy"
    assert exchanged.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("named", ["127.0.0.1/16", "10.0.0.0/8,127.0.0.1", "127.0.0.1/32"])
async def test_a_proxy_is_believed_by_a_network_that_is_named_by_one_of_its_addresses_and_by_ipv4_over_ipv6(
    named: str,
) -> None:
    everywhere = settings_of(web_port=0, web_host="::", web_token=TOKEN, web_trusted_proxy=named)
    asked = [settings_of(web_port=0, web_trusted_proxy=named), *([everywhere] if socket.has_dualstack_ipv6() else [])]
    for settings in asked:
        async with listening(settings) as port, httpx.AsyncClient(trust_env=False) as http:
            done = await http.get(f"http://127.0.0.1:{port}/", params={"token": TOKEN}, headers=PROXIED)
            assert done.headers["set-cookie"].endswith("; Secure"), settings.web_trusted_proxy


async def test_nobody_else_is_believed() -> None:
    for named in (None, "10.0.0.0/8"):
        forged = [{"x-forwarded-for": f"192.0.2.{n}", "x-forwarded-proto": "https"} for n in range(3)]
        settings = settings_of(web_port=0, web_requests_per_minute=2, web_trusted_proxy=named)
        *said, exchanged = await answers(settings, *forged)
        assert [one.status_code for one in said] == [200, 200, 429], "who asks is the address of the connection"
        assert "Secure" not in exchanged.headers["set-cookie"]
    refused, *_ = await answers(settings_of(web_port=0), PROXIED)
    assert refused.status_code == 421


@pytest.mark.parametrize("named", ["*", "proxy.example", "127.0.0.1,", "10.0.0.0/99"])
def test_a_proxy_is_named_by_its_address(named: str) -> None:
    with pytest.raises(ConfigError, match="WEB_TRUSTED_PROXY"):
        load_settings(web_trusted_proxy=named)
