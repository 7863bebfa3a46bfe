"""The channels that people read, as far as a sender sees them: what each documents of a message, and how it answers.

Each checks a message against its documentation, its token and its signature, and keeps the text that a reader would see.
"""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import hashlib
import hmac
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, quote, urlsplit

from tests.conformance.documented import FLAG, TEXT, WORDS, Document, closed, many, one_of
from tests.conformance.server import ConformanceServer, Refusal, body_fault, path_of
from tests.infra.fakes.server import Received, Say

LOOKED_UP = "2026-11-26"
SIGNED_WITH = "SEC0123456789"


class ChannelServer(ConformanceServer):
    """One channel. ``secret`` is what BOT_SECRET_… holds; ``texts`` what readers got; ``longest`` its limit, in ``measure``."""

    document: Document
    key = "token-of-the-channel"
    path = "/hook/token-of-the-channel"
    longest = 4096
    to = ""

    def __init__(self, situation: Any = None) -> None:
        super().__init__(situation)
        self.texts: list[str] = []

    @property
    def secret(self) -> str:
        return self.url + self.path

    def measure(self, text: str) -> int:
        return len(text)

    def text_of(self, body: Any) -> str:
        """Return the text of a message."""
        raise NotImplementedError

    def knows(self, request: Received) -> bool:
        return path_of(request) == self.path

    def refusal(self, request: Received) -> Refusal | None:
        if not self.knows(request):
            return Refusal("wrong token", self.error(404))
        if request.method == "GET":
            return None
        body, fault = body_fault(request, self.document)
        if fault is not None:
            return Refusal(fault.said, self.error(400, fault.said))
        if self.measure(self.text_of(body)) > self.longest:
            return Refusal("too long", self.too_long())
        return None

    def answer(self, request: Received) -> Say:
        if request.method == "POST":
            self.texts.append(self.text_of(request.json))
        return self.done()

    def done(self) -> Say:
        raise NotImplementedError

    def too_long(self) -> Say:
        return self.error(400, "message is too long")

    def throttled(self) -> Say:
        raise NotImplementedError


class TelegramServer(ChannelServer):
    path, to = "/bot123:token-of-the-channel", "-1001"
    document = Document(
        "https://core.telegram.org/bots/api#sendmessage",
        LOOKED_UP,
        closed(
            "chat_id text",
            chat_id=TEXT,
            text=WORDS,
            parse_mode=one_of("HTML", "MarkdownV2", "Markdown"),
            link_preview_options=closed("", is_disabled=FLAG),
        ),
    )

    def knows(self, request: Received) -> bool:
        return path_of(request) in {f"{self.path}/sendMessage", f"{self.path}/getChat"}

    def measure(self, text: str) -> int:
        return len(text.encode("utf-16-le")) // 2

    def text_of(self, body: Any) -> str:
        return str(body["text"])

    def refusal(self, request: Received) -> Refusal | None:
        body = request.json if request.method == "POST" else {"chat_id": self.to}
        if self.knows(request) and body.get("chat_id") != self.to:
            return Refusal("another chat", self.error(400, "chat not found"))
        return super().refusal(request)

    def done(self) -> Say:
        return Say({"ok": True, "result": {"message_id": 7, "date": 1, "chat": {"id": -1001, "type": "supergroup"}}})

    def error(self, status: int, said: str = "Not Found", headers: dict[str, str] | None = None) -> Say:
        words = f"Bad Request: {said}" if status == 400 else said
        return Say({"ok": False, "error_code": status, "description": words}, status=status, headers=headers or {})

    def throttled(self) -> Say:
        words = "Too Many Requests: retry after 7"
        body = {"ok": False, "error_code": 429, "description": words, "parameters": {"retry_after": 7}}
        return Say(body, status=429)


class DiscordServer(ChannelServer):
    longest = 2000
    document = Document(
        "https://docs.discord.com/developers/resources/webhook#execute-webhook",
        LOOKED_UP,
        closed(
            "content",
            content=WORDS,
            allowed_mentions=closed("", parse=many(one_of("roles", "users", "everyone")), roles=many(TEXT)),
            flags={"type": "integer"},
            username=TEXT,
        ),
    )

    def text_of(self, body: Any) -> str:
        return str(body["content"])

    def done(self) -> Say:
        return Say({"id": "1234567890", "type": 0, "content": "…"})

    def error(self, status: int, said: str = "", headers: dict[str, str] | None = None) -> Say:
        known = {401: (50027, "Invalid Webhook Token"), 404: (10015, "Unknown Webhook")}
        code, words = known.get(status, (50035, "Invalid Form Body"))
        return Say({"message": words, "code": code}, status=status, headers=headers or {})

    def too_long(self) -> Say:
        errors = {
            "content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}
        }
        return Say({"message": "Invalid Form Body", "code": 50035, "errors": errors}, status=400)

    def throttled(self) -> Say:
        body = {"message": "You are being rate limited.", "retry_after": 7.0, "global": False}
        return Say(body, status=429, headers={"retry-after": "7"})


class SlackServer(ChannelServer):
    longest = 40_000
    document = Document(
        "https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks",
        LOOKED_UP,
        closed("text", text=WORDS, mrkdwn=FLAG, link_names=FLAG, unfurl_links=FLAG, unfurl_media=FLAG),
    )

    def text_of(self, body: Any) -> str:
        return str(body["text"])

    def done(self) -> Say:
        return Say(b"ok", headers={"content-type": "text/html"})

    def error(self, status: int, said: str = "", headers: dict[str, str] | None = None) -> Say:
        words = {400: "invalid_payload", 403: "invalid_token", 404: "no_service", 410: "channel_is_archived"}
        return Say(words.get(status, "rollup_error").encode(), status=status, headers=headers or {})

    def too_long(self) -> Say:
        return Say(b"msg_too_long", status=400)

    def throttled(self) -> Say:
        return Say(b"rate_limited", status=429, headers={"retry-after": "7"})


class NtfyServer(ChannelServer):
    path = "/alerts"
    document = Document(
        "https://docs.ntfy.sh/publish/#publish-as-json",
        LOOKED_UP,
        closed("topic", topic=WORDS, message=TEXT, title=TEXT, click=TEXT, markdown=FLAG),
    )

    @property
    def secret(self) -> str:
        return f"{super().secret},{self.key}"

    def measure(self, text: str) -> int:
        return len(text.encode())

    def text_of(self, body: Any) -> str:
        return str(body["message"])

    def refusal(self, request: Received) -> Refusal | None:
        if request.headers.get("authorization") != f"Bearer {self.key}":
            return Refusal("wrong token", self.error(401, "unauthorized"))
        return super().refusal(request)

    def knows(self, request: Received) -> bool:
        return path_of(request) == "/" and request.json.get("topic") == "alerts"

    def done(self) -> Say:
        return Say({"id": "sPs71M8A2T", "time": 1, "event": "message", "topic": "alerts", "message": "…"})

    def error(self, status: int, said: str = "", headers: dict[str, str] | None = None) -> Say:
        return Say({"code": status * 100 + 1, "http": status, "error": said}, status=status, headers=headers or {})

    def throttled(self) -> Say:
        return Say(
            {"code": 42901, "http": 429, "error": "limit reached: too many requests, please be nice"}, status=429
        )


class RobotServer(ChannelServer):
    """A group robot: every answer has the status 200, and its code in the body."""

    codes: ClassVar[dict[str, tuple[int, str]]]
    names: ClassVar = ("errcode", "errmsg")
    longest = 20_000

    def measure(self, text: str) -> int:
        return len(text.encode())

    def text_of(self, body: Any) -> str:
        return str(body["text"]["content"])

    def coded(self, situation: str) -> Say:
        code, words = self.codes[situation]
        return Say({self.names[0]: code, self.names[1]: words})

    def done(self) -> Say:
        return self.coded("done")

    def error(self, status: int, said: str = "", headers: dict[str, str] | None = None) -> Say:
        if status >= 500:
            return Say({self.names[0]: -1, self.names[1]: said}, status=status, headers=headers or {})
        return self.coded("wrong token" if status == 404 else "malformed")

    def too_long(self) -> Say:
        return self.coded("too long")

    def throttled(self) -> Say:
        return self.coded("throttled")


class FeishuServer(RobotServer):
    names: ClassVar = ("code", "msg")
    codes: ClassVar = {
        "done": (0, "success"),
        "wrong token": (19001, "param invalid: incoming webhook access token invalid"),
        "wrong signature": (19021, "sign match fail or timestamp is not within one hour from current time"),
        "malformed": (9499, "Bad Request"),
        "too long": (9499, "Bad Request"),
        "throttled": (11232, "frequency limited psm[lark.oapi.app_platform_runtime]appID[1500]"),
    }
    document = Document(
        "https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot",
        LOOKED_UP,
        closed(
            "timestamp sign msg_type content",
            timestamp=TEXT,
            sign=TEXT,
            msg_type=one_of("text"),
            content=closed("text", text=WORDS),
        ),
    )

    @property
    def secret(self) -> str:
        return f"{super().secret},{SIGNED_WITH}"

    def text_of(self, body: Any) -> str:
        return str(body["content"]["text"])

    def refusal(self, request: Received) -> Refusal | None:
        if (refused := super().refusal(request)) is not None:
            return refused
        key = f"{request.json['timestamp']}\n{SIGNED_WITH}".encode()
        expected = base64.b64encode(hmac.new(key, digestmod=hashlib.sha256).digest()).decode()
        return None if request.json["sign"] == expected else Refusal("signature", self.coded("wrong signature"))


class DingTalkServer(RobotServer):
    path = "/robot/send?access_token=token-of-the-channel"
    codes: ClassVar = {
        "done": (0, "ok"),
        "wrong token": (300005, "token is not exist"),
        "wrong signature": (310000, "sign not match, more: [https://ding-doc.dingtalk.com/doc#/serverapi2/qf2nxq]"),
        "malformed": (40035, "缺少参数 json"),
        "too long": (460101, "message too long, exceed 20000 bytes"),
        "throttled": (130101, "send too fast, exceed 20 times per minute"),
    }
    document = Document(
        "https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages",
        LOOKED_UP,
        closed(
            "msgtype text",
            msgtype=one_of("text"),
            text=closed("content", content=WORDS),
            at=closed("", atMobiles=many(TEXT), atUserIds=many(TEXT), isAtAll=FLAG),
        ),
    )

    @property
    def secret(self) -> str:
        return f"{super().secret},{SIGNED_WITH}"

    def knows(self, request: Received) -> bool:
        return f"{request.path}&".startswith(f"{self.path}&")

    def refusal(self, request: Received) -> Refusal | None:
        if (refused := super().refusal(request)) is not None:
            return refused
        query = parse_qs(urlsplit(request.path).query)
        signed = f"{query['timestamp'][0]}\n{SIGNED_WITH}".encode()
        expected = base64.b64encode(hmac.new(SIGNED_WITH.encode(), signed, hashlib.sha256).digest()).decode()
        return None if query["sign"] == [expected] else Refusal("signature", self.coded("wrong signature"))


class WeComServer(RobotServer):
    path, longest = "/cgi-bin/webhook/send?key=token-of-the-channel", 2048
    codes: ClassVar = {
        "done": (0, "ok"),
        "wrong token": (93000, "invalid webhook url, hint: [1714538355214402498975046]"),
        "malformed": (40008, "invalid message type"),
        "too long": (40058, "text.content exceed max length 2048. invalid Request Parameter"),
        "throttled": (45009, "api freq out of limit"),
    }
    document = Document(
        "https://developer.work.weixin.qq.com/document/path/91770",
        LOOKED_UP,
        closed(
            "msgtype text", msgtype=one_of("text"), text=closed("content", content=WORDS, mentioned_list=many(TEXT))
        ),
    )

    def knows(self, request: Received) -> bool:
        return request.path == self.path


SERVERS: dict[str, type[ChannelServer]] = {
    "telegram": TelegramServer,
    "discord": DiscordServer,
    "slack": SlackServer,
    "ntfy": NtfyServer,
    "feishu": FeishuServer,
    "dingtalk": DingTalkServer,
    "wecom": WeComServer,
}


class SmtpServer:
    """A mail server. ``says``: command → its answer instead of 250; ``END``: after the mail. Empty: it hangs up."""

    to = ""

    def __init__(self, says: dict[str, str] | None = None) -> None:
        self._says = says or {}
        self.texts: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.secret = f"mailto://bot@127.0.0.1:{port}?from={quote('bot@example.com')}&to={quote('desk@example.com')}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            command = line.split()[0].upper().decode()
            said = self._says.get(command, "354 go on" if command == "DATA" else "250 done")
            writer.write(f"{said}\r\n".encode() if said else b"")
            if not said:
                break
            if command == "DATA":
                mail = await reader.readuntil(b"\r\n.\r\n")
                read = email.message_from_bytes(mail[:-3], policy=email.policy.default)
                end = self._says.get("END", "250 queued")
                if end.startswith("250"):
                    assert read.get_content_type() == "text/plain", "a mail is plain text"
                    self.texts.append(str(read.get_content()))
                writer.write(f"{end}\r\n".encode())
        writer.close()
