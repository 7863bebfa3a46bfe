from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from infra.bots.adapter import Message, MessageAdapter, Result
from infra.bots.definition import BotDefinition
from infra.bots.notify import NAMES, message_adapter
from schemas.errors import ConfigError
from tests.conformance.channels.rows import EVERY, ROWS, ChannelRow
from tests.conformance.channels.servers import SERVERS, SmtpServer

LINK = "http://127.0.0.1:8700/case/0f"
HOSTILE = (
    "BUY BTC\n@everyone @here @all <@123> <!channel> <at user_id=\"all\">all</at> [free coins](https://evil.example/x) "
    "https://evil.example http://evil.example t.me/evil evil.com /start@evil_bot <b>bold</b> <a href='https://evil.example'>x</a> "
    "**bold** _it_ `code` ||spoiler|| ~~no~~ <https://evil.example|x> &lt;!channel&gt; \u202etxt\u0007"
)  # fmt: skip


def adapter(channel: str, secret: str, to: str = "") -> MessageAdapter:
    bot = BotDefinition(name="desk", kind="notify", channel=channel, to=to)
    return message_adapter(bot, tuple(part for part in secret.split(",") if part))


@asynccontextmanager
async def served(channel: str, situation: Any = None) -> AsyncIterator[tuple[MessageAdapter, Any]]:
    async with SmtpServer() if channel == "mail" else SERVERS[channel](situation) as server:
        made = adapter(channel, server.secret, server.to)
        try:
            yield made, server
        finally:
            await made.close()


async def send(made: MessageAdapter, text: str = "BUY BTC\nconfirmed", link: str | None = LINK) -> Result:
    return await made.send(Message(reference="r", text=text, link=link, urgent=False))


@pytest.mark.parametrize(("row", "channel"), [pytest.param(r, c, id=f"{r.name}-{c}") for r in ROWS for c in r.channels])
async def test_the_sender_does_what_the_table_says(row: ChannelRow, channel: str) -> None:
    def situation(server: Any, request: Any) -> Any:
        return server.answer(request) if row.once and len(server.requests) > 1 else row.situation(server, request)

    async with served(channel, situation) as (made, server):
        result = await send(made)
    wait = row.wait_s[channel] if isinstance(row.wait_s, dict) else row.wait_s
    assert (result.outcome, result.wait_s, len(server.texts)) == (row.outcome, wait, row.texts), result
    assert row.says in result.reason
    assert server.refusals == [] and "token-of" not in result.reason


@pytest.mark.parametrize("channel", NAMES)
async def test_hostile_news_arrives_as_plain_text_and_the_only_link_is_ours(channel: str) -> None:
    async with served(channel) as (made, server):
        assert (await send(made, HOSTILE)).outcome == "delivered"
    [text] = server.texts
    body = server.requests[0].json if channel != "mail" else {}
    assert re.findall(r"https?://\S+", text) == [LINK]
    assert not re.search(r"@\w|<[@!/\w]|\]\(|\b\w+\.[a-z]{2}|(?<!\S)/\w|[\u202e\u0007]", text.replace(LINK, ""))
    assert "everyone" in text and "free coins" in text.replace("\\", "")  # a reader sees what the news said
    assert (channel, body) == (channel, body | EFFECTS_OFF.get(channel, {}))
    assert not {"parse_mode", "embeds", "markdown", "attachments", "blocks"} & set(body)
    if channel == "discord":
        assert not re.search(r"(?<!\\)[*_~`|<\[]", text.replace(LINK, "").replace("\\\\", ""))


EFFECTS_OFF: dict[str, dict[str, Any]] = {
    "telegram": {"link_preview_options": {"is_disabled": True}},
    "discord": {"allowed_mentions": {"parse": []}, "flags": 4},
    "slack": {"mrkdwn": False, "link_names": False, "unfurl_links": False},
    "dingtalk": {"at": {"atMobiles": [], "atUserIds": [], "isAtAll": False}},
}


@pytest.mark.parametrize("channel", EVERY)
async def test_a_message_beyond_the_limit_is_cut_before_it_is_sent_and_keeps_its_link(channel: str) -> None:
    async with served(channel) as (made, server):
        assert (await send(made, "BUY BTC\n" + "消息*&😀" * 8000)).outcome == "delivered"
    [text] = server.texts
    assert text.startswith("BUY BTC") and text.endswith(f"…\n{LINK}") and server.refusals == []
    assert len(text) > 400


MAIL: list[tuple[dict[str, str], str, int]] = [
    ({"END": "554 spam"}, "refused", 0),
    ({"RCPT": "550 no such user"}, "disabled", 0),
    ({"RCPT": "451 greylisted"}, "throttled", 0),
    ({"MAIL": "421 too busy"}, "throttled", 0),
    ({"DATA": ""}, "unknown", 0),
]


@pytest.mark.parametrize(("says", "outcome", "texts"), MAIL)
async def test_a_mail_server_says_what_becomes_of_a_mail(says: dict[str, str], outcome: str, texts: int) -> None:
    async with SmtpServer(says) as server:
        result = await send(adapter("mail", server.secret))
    assert (result.outcome, len(server.texts)) == (outcome, texts), result


@pytest.mark.parametrize("channel", NAMES)
async def test_where_nobody_listens_nothing_was_sent_and_it_is_tried_again(channel: str) -> None:
    async with served(channel) as (made, _):
        pass
    async with SmtpServer() if channel == "mail" else SERVERS[channel]() as server:
        made = adapter(channel, server.secret, server.to)
    assert (await send(made)).outcome == "throttled"
    await made.close()


@pytest.mark.parametrize("channel", ["telegram", "discord"])
async def test_check_asks_the_channel_whether_it_knows_us(channel: str) -> None:
    async with served(channel) as (made, server):
        await made.check()
        assert server.texts == []
        wrong = adapter(channel, server.secret.replace("token", "tokem"), server.to)
        with pytest.raises(ConfigError, match="BOT_SECRET_DESK"):
            await wrong.check()
        await wrong.close()


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"channel": "pager"}, "https://x/y", "channel is 'pager'; write one of telegram, "),
    ({"to": "1"}, "", "BOT_SECRET_DESK is not set; set it to the bot's token"),
    ({}, "123:abc", "to is missing"),
    ({"to": "1"}, "hello", "BOT_SECRET_DESK does not hold the bot's token"),
    ({"channel": "discord"}, "ftp://x/y", "BOT_SECRET_DESK does not hold the webhook's address"),
    ({"channel": "discord", "to": "1"}, "https://x/y", "to does not apply to channel discord"),
    ({"channel": "mail", "map": {"BTC": "x"}}, "mailto://x", "map does not apply to channel mail"),
    ({"channel": "mail"}, "https://x/y", "BOT_SECRET_DESK is not a mail address"),
    ({"quiet": "23:00-25:00"}, "123:abc", "quiet is '23:00-25:00'"),
    ({"timezone": "Mars"}, "123:abc", "timezone is 'Mars'"),
    ({"send": ()}, "123:abc", "send is empty"),
]


@pytest.mark.parametrize(("fields", "secret", "says"), WRONG)
def test_a_wrong_definition_is_refused_with_the_field(fields: dict[str, Any], secret: str, says: str) -> None:
    bot = BotDefinition(**{"name": "desk", "kind": "notify", "channel": "telegram", **fields})
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        message_adapter(bot, tuple(filter(None, [secret])))
    assert str(caught.value).startswith("[desk]") and (not secret or secret not in str(caught.value))
