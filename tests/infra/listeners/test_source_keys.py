"""Sources with a key: it goes to the publisher alone, is named where it is missing, and stands in no word of a failure."""

from __future__ import annotations

import orjson
import pytest
from msgspec.structs import replace

from infra.listeners.failures import NotReadError
from infra.listeners.fetching import Fetcher
from infra.listeners.source import Validators, sources_of
from infra.settings import load_settings
from newsproof.app.source_list import keys_of, listed_sources
from newsproof.cli.operate.doctor import _listened
from tests.infra.fakes.server import FakeServer, Say
from tests.infra.fakes.sources import cryptopanic, recent

pytestmark = pytest.mark.security
KEY = "key-that-nobody-may-see"


async def test_a_key_is_sent_with_the_question_and_a_refusal_says_to_correct_it_without_naming_it() -> None:
    keys = keys_of(load_settings(_env_file=None, cryptopanic_api_key=KEY))
    answer = Say(orjson.dumps(cryptopanic(replace(recent(1), id="7"))))
    async with FakeServer(
        answer, Say(status=401), Say(status=302, headers={"location": f"ftp://x/?auth_token={KEY}"})
    ) as server:
        row = sources_of(None)["cryptopanic"]
        source = replace(row, url=row.url.replace("https://cryptopanic.com", server.url), private=True)
        fetcher = Fetcher(keys=keys)
        assert [one.external_id for one in (await fetcher.look(source, Validators())).items or ()] == ["7"]
        assert f"auth_token={KEY}&" in server.requests[0].path
        for reason in ("no_key", "not_opened"):
            with pytest.raises(NotReadError) as refused:
                await fetcher.look(source, Validators())
            assert refused.value.reason == reason and KEY not in str(refused.value)
        await fetcher.close()


async def test_no_redirect_takes_a_rows_headers_to_another_origin() -> None:
    answer = Say(orjson.dumps(cryptopanic(replace(recent(1), id="7"))))
    async with (
        FakeServer(answer) as stranger,
        FakeServer(
            Say(status=302, headers={"location": "/here"}),
            Say(status=302, headers={"location": f"{stranger.url}/there"}),
        ) as publisher,
    ):
        row = replace(sources_of(None)["cryptopanic"], url=f"{publisher.url}/{{key}}", headers={"x-api-key": "{key}"})
        fetcher = Fetcher(keys={"CRYPTOPANIC_API_KEY": KEY})
        await fetcher.look(replace(row, private=True, robots=False), Validators())
        await fetcher.close()
        assert [one.headers.get("x-api-key") for one in publisher.requests] == [KEY, KEY]
        assert [one.headers.get("x-api-key") for one in stranger.requests] == [None]


def test_a_key_that_is_missing_is_named_by_doctor_and_by_the_list(tmp_path: object) -> None:
    file = tmp_path / "own.toml"  # type: ignore[operator]
    file.write_text("".join(f'[[source]]\nid = "{name}"\ndefault = true\n' for name in ("cryptopanic", "phoenix")))
    settings = load_settings(_env_file=None, listener_sources=file, phoenix_api_key=KEY)
    (check,) = _listened(settings)
    assert (check.name, check.do) == (
        "source cryptopanic", "set CRYPTOPANIC_API_KEY: this publisher requires a key",
    )  # fmt: skip
    states = {one.id: (one.state, one.reason, one.key) for one in listed_sources(settings, {}, recent(1).at)}  # type: ignore[arg-type]
    assert states["cryptopanic"] == ("left out", "no_key", "CRYPTOPANIC_API_KEY")
    assert states["phoenix"][0] == "never looked at"
