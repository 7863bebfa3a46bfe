"""Word lists of the offline model: general knowledge of the field in zh and en, and nothing about any sample event."""

from __future__ import annotations

import re
from typing import Final

from schemas.signals import EventType


def _any(*words: str) -> re.Pattern[str]:
    # English words are matched from their beginning ("exploit" finds "exploited"); Chinese has no word boundaries.
    return re.compile("|".join(rf"\b{w}" if w[0].isascii() and w[0].isalnum() else w for w in words), re.IGNORECASE)


EVENT_WORDS: Final[dict[EventType, tuple[re.Pattern[str], int]]] = {
    "scam_alert": (
        _any(
            "double back",
            "get double",
            "doubl\\w+ (?:your|any|the)",
            "giveaway",
            "phishing",
            "rug ?pull",
            "翻倍返还",
            "钓鱼",
            "跑路",
            "骗局",
        ),
        9,
    ),
    "depeg": (
        _any("depeg", "de-peg", "los\\w+ (?:its|the) peg", "脱锚", "(?:USD[A-Z]|UST|DAI)\\s*(?:falls|跌至|跌破)"),
        6,
    ),
    "hack": (
        _any(
            "hack",
            "exploit",
            "stole",
            "drain",
            "breach",
            "attacker",
            "malware",
            "cracked",
            "broken \\S+ encryption",
            "flash ?loan",
            "被盗",
            "遭攻击",
            "攻击",
            "黑客",
            "漏洞",
            "盗走",
            "私钥泄露",
        ),
        5,
    ),
    "liquidation": (
        _any(
            "liquidat",
            "chapter 11",
            "bankrupt",
            "insolven",
            "(?:paus|halt|suspend|freez)\\w{0,10} (?:all )?withdrawal",
            "margin call",
            "清算",
            "爆仓",
            "破产",
            "暂停提(?:款|币|现)",
            "资不抵债",
        ),
        5,
    ),
    "listing": (
        _any(
            "list(?:s|ing|ed)\\b",
            "files? for \\D{0,30}ETF",
            "registers? \\D{0,40}trust",
            "delist",
            "上线",
            "上币",
            "上架",
            "下架",
        ),
        3,
    ),
    "regulation": (
        _any(
            "SEC\\b",
            "CFTC",
            "sues?\\b",
            "lawsuit",
            "court",
            "judge",
            "(?<!\\w)\\w+ law takes",
            "legal tender",
            "ban(?:s|ned)?\\b",
            "charg(?:e|es|ed)\\b",
            "treasury",
            "guilty",
            "regulat",
            "approv",
            "indict",
            "sanction",
            "proof[- ]of[- ]reserves",
            "批准",
            "监管",
            "法院",
            "通缉",
            "非法",
            "起诉",
            "罚款",
            "人民银行",
            "央行",
            "证监会",
            "禁止",
            "牌照",
            "国际刑警",
        ),
        3,
    ),
    "partnership": (
        _any(
            "partner",
            "accept\\w* (?:\\w+ )?(?:bitcoin|btc|crypto|payment|eth|it as payment)",
            "as payment",
            "acquir\\w+",
            "merger",
            "letter of intent",
            "bought \\$",
            "purchases using",
            "collaborat",
            "合作",
            "收购",
            "接受\\S{0,6}(?:支付|付款)",
            "战略协议",
        ),
        4,
    ),
    "funding": (_any("rais(?:e|es|ed) \\$", "series [a-e]\\b", "funding round", "融资", "领投"), 4),
    "airdrop": (_any("airdrop", "空投"), 5),
    "governance": (_any("proposal", "DAO\\b", "governance", "\\bvote", "提案", "治理", "投票"), 2),
    "whale": (_any("whale", "sold all", "sells? all", "moved \\d[\\d,.]* (?:BTC|ETH)", "巨鲸", "抛售全部", "清仓"), 4),
    "product": (
        _any("merge\\b", "mainnet", "upgrade", "hard ?fork", "testnet", "launch", "主网", "升级", "硬分叉", "发布新"),
        2,
    ),
    "macro": (
        _any(
            "the fed\\b", "CPI\\b", "interest rate", "inflation", "rate (?:hike|cut)", "美联储", "加息", "降息", "通胀"
        ),
        3,
    ),
    "celebrity": (_any("tweet", "selfie", "celebrity", "发推", "代言"), 1),
}
"""Event type -> (its words, weight of one match). The highest sum wins; ties go to the first."""

NEGATIVE = _any(
    "hack", "exploit", "stole", "drain", "breach", "malware", "broken", "breaks?\\b", "sues?\\b",
    "charg(?:e|es|ed)\\b", "guilty", "suspend",
    "paus", "halt", "ban(?:s|ned)?\\b", "bankrupt", "chapter 11", "insolven", "liquidat", "depeg", "sold\\b",
    "sells?\\b",
    "dump", "fake", "den(?:y|ies|ied)\\b", "no relationship", "delist", "scam", "double back", "steps? down",
    "reject", "withdrawals",
    "被盗", "攻击", "黑客", "脱锚", "跌至", "暴跌", "非法", "通缉", "起诉", "禁止", "破产", "爆仓", "清算", "提款", "未批准", "伪造",
    "不实", "辟谣", "下架", "入侵", "罚款",
)  # fmt: skip
POSITIVE = _any(
    "approv", "accept", "partner", "legal tender", "takes effect", "complet", "files? for \\D{0,30}ETF",
    "registers?\\b", "acquir",
    "bought", "list(?:s|ing|ed)\\b", "sides? with", "not securities", "launch", "rais(?:e|es|ed) \\$",
    "upgrade", "(?<!未)批准", "上线",
    "合作", "收购", "融资", "主网", "升级", "获批",
)  # fmt: skip
HEDGES = _any(
    "sources? (?:say|said|close|familiar)", "insider", "rumou?r", "reportedly", "allegedly", "traders? say",
    "unconfirmed", "is said to",
    "could", "might", "may (?:soon|be)", "admin says", "people familiar", "speculat", "传闻", "据称", "据传", "知情人士",
    "内部人士", "消息人士",
    "疑似", "或将", "有望", "网传",
)  # fmt: skip
OFFICIAL_ACTS = _any(
    "disclos", "filing", "files?\\b", "announc", "sues?\\b", "completes?\\b", "takes effect", "press release",
    "signs?\\b", "pleads?", "approves?\\b",
    "registers?\\b", "grants?\\b", "rules?\\b", "court", "pauses?\\b", "suspends?\\b", "halted", "confirms?",
    "^[^:：]{2,30}[:：]", "发布", "确认",
    "公告", "宣布", "批准", "声明",
)  # fmt: skip
SPAM = _any(
    "join (?:our|my|the) (?:vip|telegram|channel|group)", "referral (?:link|code)", "use (?:my )?code\\b",
    "guaranteed (?:profit|return|gains)",
    "100x guaranteed", "加微信", "加群", "返佣", "邀请码", "稳赚", "带单",
)  # fmt: skip
LOUD = _any("breaking\\b", "urgent", "突发", "重磅")
SECOND_HAND = _any(
    "press release says",
    "(?:according to|per|citing) an? (?:press release|post)",
    "account on X\\b",
    "screenshots?",
    "截图",
)

ASSETS: Final[dict[str, tuple[str, str]]] = {
    "bitcoin cash": ("BCH", "Bitcoin Cash"), "bitcoin": ("BTC", "Bitcoin"), "比特币": ("BTC", "Bitcoin"),
    "ethereum": ("ETH", "Ethereum"),
    "以太坊": ("ETH", "Ethereum"), "weth": ("ETH", "Ethereum"), "solana": ("SOL", "Solana"), "litecoin": ("LTC",
    "Litecoin"),
    "莱特币": ("LTC", "Litecoin"), "ripple": ("XRP", "XRP"), "瑞波": ("XRP", "XRP"), "dogecoin": ("DOGE", "Dogecoin"),
    "狗狗币": ("DOGE", "Dogecoin"), "cardano": ("ADA", "Cardano"), "polkadot": ("DOT", "Polkadot"),
    "avalanche": ("AVAX", "Avalanche"),
    "chainlink": ("LINK", "Chainlink"), "uniswap": ("UNI", "Uniswap"), "aave": ("AAVE", "Aave"),
    "curve": ("CRV", "Curve DAO"),
    "terrausd": ("UST", "TerraUSD"), "terra": ("LUNA", "Terra"), "tether": ("USDT", "Tether"), "泰达": ("USDT",
    "Tether"),
    "toncoin": ("TON", "Toncoin"), "tron": ("TRX", "TRON"), "波场": ("TRX", "TRON"), "polygon": ("POL", "Polygon"),
    "monero": ("XMR", "Monero"), "zcash": ("ZEC", "Zcash"), "shiba": ("SHIB", "Shiba Inu"), "arbitrum": ("ARB",
    "Arbitrum"),
}  # fmt: skip
"""A coin's name (lower case) -> ticker and name. Longer names come before the shorter ones that they contain."""
TICKERS: Final = frozenset(
    "BTC ETH SOL BNB XRP LTC BCH DOGE ADA DOT AVAX LINK UNI AAVE CRV UST LUNA USDC USDT DAI FTT CEL RON WRX TON TRX POL"  # noqa: SIM905
    " XMR ZEC SHIB ARB OP SUI APT MKR BUSD FDUSD".split()
)
STABLE: Final = frozenset({"USDC", "USDT", "DAI", "BUSD", "UST", "FDUSD"})
TOKEN_OF: Final[dict[str, str]] = {
    "binance": "BNB", "币安": "BNB", "bnb chain": "BNB", "ftx": "FTT", "celsius": "CEL", "ronin": "RON",
    "wazirx": "WRX",
    "poly network": "ETH", "wormhole": "SOL", "circle": "USDC", "okx": "OKB", "kucoin": "KCS", "makerdao": "MKR",
}  # fmt: skip
"""A company or protocol (lower case) -> the token whose price depends on it."""
ENTITIES: Final = (
    "中国人民银行", "人民银行", "美国证监会", "国际刑警组织", "美联储", "币安", "欧易", "火币", "特斯拉", "贝莱德", "灰度", "SEC", "CFTC",
    "US Treasury", "FBI", "Interpol", "Federal Reserve", "European Central Bank", "Binance", "Coinbase",
    "Kraken", "OKX", "Bybit", "FTX",
    "KuCoin", "Bitfinex", "Gemini", "Tesla", "Musk", "Amazon", "Walmart", "Google", "Apple", "Microsoft",
    "PayPal", "Visa", "Mastercard",
    "BlackRock", "Grayscale", "Fidelity", "SpaceX", "MicroStrategy", "Circle", "Tether", "Ripple", "Celsius",
    "El Salvador",
)  # fmt: skip
"""Well-known actors. Any other actor is taken from the capitalised words at the start of the text."""
EVENT_QUERY: Final[dict[str, str]] = {
    "hack": "黑客攻击 hack exploit", "regulation": "监管 regulation", "listing": "上线 listing",
    "partnership": "合作 partnership",
    "depeg": "脱锚 depeg", "liquidation": "清算 liquidation", "product": "升级 upgrade", "whale": "巨鲸 whale",
    "funding": "融资 funding",
}  # fmt: skip
OFFICIAL_QUERY = ("官方声明 官方公告", "official statement announcement")
"""Search words for official sources, for Chinese and for other news; used for hack, regulation and partnership."""
STOP: Final = frozenset(
    "a an the of to in on at for by and or with from as is are was be been has have had it its this that these those all any"  # noqa: SIM905
    " says say said over after about through than more will would up out off not no breaking".split()
)
