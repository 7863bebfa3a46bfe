"""The robots of groups in Feishu, DingTalk and WeCom, with the signature where one can be required.

Apprise reads only the HTTP status, but these answer a refusal with 200 and a code in the body; and it does not sign for
Feishu. All messages are of the type text, which has no markup, and none mentions anybody.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from infra.bots.channels import Channel, Reply, Request, Target, utf8


def _signature(key: str, message: str) -> str:
    return base64.b64encode(hmac.digest(key.encode(), message.encode(), hashlib.sha256)).decode()


# https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
def _feishu(target: Target, text: str, link: str | None, at: datetime) -> Request:
    stamp = str(int(at.timestamp()))
    # Feishu's key is the text to sign, and what it signs is empty.
    sign = {"timestamp": stamp, "sign": _signature(f"{stamp}\n{target.second}", "")} if target.second else {}
    return Request(target.secret, {**sign, "msg_type": "text", "content": {"text": text}})


# https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
def _dingtalk(target: Target, text: str, link: str | None, at: datetime) -> Request:
    stamp = str(int(at.timestamp() * 1000))
    sign = quote(_signature(target.second, f"{stamp}\n{target.second}"), safe="")
    signed = f"&timestamp={stamp}&sign={sign}" if target.second else ""
    at_nobody = {"atMobiles": [], "atUserIds": [], "isAtAll": False}
    return Request(target.secret + signed, {"msgtype": "text", "text": {"content": text}, "at": at_nobody})


# https://developer.work.weixin.qq.com/document/path/91770
def _wecom(target: Target, text: str, link: str | None, at: datetime) -> Request:
    return Request(target.secret, {"msgtype": "text", "text": {"content": text, "mentioned_list": []}})


def _reply(code: str, words: str) -> Any:
    def read(body: Any) -> Reply | None:
        if not isinstance(body, dict) or not isinstance(body.get(code), int):
            return None
        return Reply(done=body[code] == 0, code=body[code], words=str(body.get(words, "")))

    return read


_TWO = "the robot's address, and a comma and its secret (加签) if it has one"
ROBOTS: Mapping[str, Channel] = {
    "feishu": Channel(
        secret=_TWO, rates=((5, 1.0), (100, 60.0)), limit=18_000, size=utf8, request=_feishu, read=_reply("code", "msg"),
        throttled=frozenset({429, 11232}),
        stops=frozenset({19001, 19021, 19022, 19024, 401, 403, 404}),
    ),
    "dingtalk": Channel(
        secret=_TWO, rates=((20, 60.0),), limit=18_000, size=utf8, request=_dingtalk, read=_reply("errcode", "errmsg"),
        throttled=frozenset({429, 130101, 410100, 90030}),
        stops=frozenset({310000, 300001, 300005, 400013, 400101, 400102, 400106, 401, 403, 404}), silence_s=600.0,
    ),
    "wecom": Channel(
        # 2,048 bytes for a text; the documented 4,096 are for Markdown, which is not used.
        secret=_TWO.partition(",")[0], rates=((20, 60.0),), limit=2048, size=utf8, request=_wecom,
        read=_reply("errcode", "errmsg"), throttled=frozenset({429, 45009}),
        stops=frozenset({93000, 93004, 93008, 401, 403, 404}),
    ),
}  # fmt: skip
