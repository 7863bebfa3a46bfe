"""What a denial is aimed at, in zh and en; who may write on an official domain; both Chinese scripts."""

from __future__ import annotations

from datetime import UTC, datetime

from agents.evidence import Claim, assess
from agents.evidence.compiled import compiled
from agents.tables import load_tables
from agents.text.han import simplified
from agents.text.scope import stem
from schemas.config import Snapshot
from tests import builders

TABLES = load_tables(demo=False)
SNAPSHOT = Snapshot(tables=TABLES)
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)


def stance(claim: str, event_type: str, asset: str, text: str, url: str = "https://www.coindesk.com/a") -> str:
    of = Claim(text=claim, language="en", event_type=event_type, asset=asset, as_of=NOW)
    page = builders.search_result(url, text, published_at=NOW)
    return assess(of, [page], query="", snapshot=SNAPSHOT).references[0].stance


def test_a_denial_counts_where_it_is_aimed_at_the_claim() -> None:
    expected = {
        "Kraken denied that it will list LUM, or any token of the kind, on its spot market this week.": "denies",
        "Kraken lists LUM today. It denied rumours of a delay and said that deposits are already open.": "supports",
        "Kraken lists LUM today. The exchange denied that the founder of the token had paid for it.": "supports",
        "Kraken lists LUM today. It denied that the step was due to pressure from market makers.": "supports",
        "Reports of a listing of LUM at Kraken were denied by two of its officers on Monday morning.": "denies",
        "Kraken denied the report. It said nothing more about LUM on Monday, and nobody answered.": "unrelated",
        "Asked about LUM, Kraken did not rule out a listing but would not say when it might happen.": "unrelated",
        "Kraken 否认推迟上线 LUM 的传言, 表示交易将于今日晚间如期开放, 充值通道已经开启。": "unrelated",
        "Kraken 否认将上线 LUM, 称网上流传的公告截图系伪造, 提醒用户注意防范诈骗风险。": "denies",
        "Kraken 今日上線 LUM, 交易已經開放, 充值通道同步開啟, 用戶可於現貨市場進行交易。": "supports",
        "Kraken 澄清並未上線 LUM, 網上流傳的公告屬偽造, 提醒用戶注意防範相關詐騙風險。": "denies",
    }  # fmt: skip
    assert {
        text: stance("Kraken adds token LUM to spot markets", "listing", "LUM", text) for text in expected
    } == expected


def test_what_was_spared_is_no_denial_of_what_happened() -> None:
    expected = {
        "Curve was exploited on Sunday. No user funds in other pools were stolen, its team said.": "supports",
        "Several pools of Curve were exploited. The contracts of crvUSD were not exploited.": "supports",
        "Curve was not exploited, its team said; a broken price display caused the alarm.": "denies",
        "There has been no exploit of Curve, and all of its pools work as they should do.": "denies",
    }
    assert {text: stance("Curve pool drained of $60M", "hack", "CRV", text) for text in expected} == expected


def test_an_official_domain_is_not_official_where_anybody_writes() -> None:
    expected = {
        "https://www.binance.com/en/square/post/1": True, "https://www.binance.com/en/support/announcement/a": False,
        "https://sites.google.com/view/x": True, "https://blog.google/x": False,
        "https://forum.makerdao.com/t/1": True, "https://github.com/binance": True, "http://[": False,
        "https://www.sec.gov/comments/sr-1/letter-1.htm": True, "https://comments.cftc.gov/1": True,
    }  # fmt: skip
    assert {url: compiled(TABLES).is_user_content(url) for url in expected} == expected


def test_the_forms_of_a_word_share_a_stem_and_both_scripts_are_one() -> None:
    assert {stem(w) for w in ("leave", "leaves", "leaving")} == {"leav"}
    assert {stem(w) for w in ("purchase", "purchased", "purchasing")} == {"purcha"}
    assert simplified("香港證監會澄清並未批准") == "香港证监会澄清并未批准"
    assert simplified("approved") == "approved"
