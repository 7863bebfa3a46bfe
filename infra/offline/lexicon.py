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
            "double back", "get double", "doubl\\w+ (?:your|any|the)", "giveaway", "phishing", "rug ?pull", "翻倍返还",
            "钓鱼", "跑路", "骗局",
        ),
        9,
    ),
    "depeg": (
        _any("depeg", "de-peg", "los\\w+ (?:its|the) peg", "脱锚", "(?:USD[A-Z]|UST|DAI)\\s*(?:falls|跌至|跌破)"),
        6,
    ),
    "hack": (
        _any(
            "hack", "exploit", "stole", "drain", "breach", "attacker", "malware", "cracked", "broken \\S+ encryption",
            "flash ?loan", "被盗", "遭攻击", "攻击", "黑客", "漏洞", "盗走", "私钥泄露",
        ),
        5,
    ),
    "liquidation": (
        _any(
            "liquidat", "chapter 11", "bankrupt", "insolven",
            "(?:paus|halt|suspend|freez)\\w{0,10} (?:all )?withdrawal", "margin call", "清算", "爆仓", "破产",
            "暂停提(?:款|币|现)", "资不抵债",
        ),
        5,
    ),
    "listing": (
        _any(
            "list(?:s|ing|ed)\\b", "(?:to|will|may|might|could) (?:soon )?list\\b", "files? for \\D{0,30}ETF",
            "registers? \\D{0,40}trust", "delist", "上线", "上币", "上架", "下架",
        ),
        3,
    ),
    "regulation": (
        _any(
            "SEC\\b", "CFTC", "sues?\\b", "lawsuit", "court", "judge", "(?<!\\w)\\w+ law takes", "legal tender",
            "ban(?:s|ned)?\\b", "charg(?:e|es|ed)\\b", "treasury", "guilty", "regulat", "approv", "indict", "sanction",
            "proof[- ]of[- ]reserves", "批准", "监管", "法院", "通缉", "非法", "起诉", "罚款", "人民银行", "央行", "证监会", "禁止", "牌照",
            "国际刑警",
        ),
        3,
    ),
    "partnership": (
        _any(
            "partner", "accept\\w* (?:\\w+ )?(?:bitcoin|btc|crypto|payment|eth|it as payment)", "as payment",
            "acquir\\w+", "merger", "letter of intent", "bought \\$", "purchases using", "collaborat", "合作", "收购",
            "接受\\S{0,6}(?:支付|付款)", "战略协议",
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
}  # fmt: skip
"""Event type -> (its words, weight of one match). The highest sum wins; ties go to the first."""

NEGATIVE = _any(
    "hack", "exploit", "attack", "stole", "drain", "breach", "malware", "broken", "breaks?\\b", "sues?\\b",
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
    "bought", "list(?:s|ing|ed)\\b", "(?:to|will|may|might|could) (?:soon )?list\\b", "sides? with", "not securities", "launch", "rais(?:e|es|ed) \\$",
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
DENIES = _any(
    "den(?:y|ies|ied)\\b", "debunk", "(?:is|are|was|were) (?:fake|false|untrue|fraudulent|not true|a hoax)", "no relationship",
    "(?:calls?|called) (?:\\w+ ){1,6}(?:fake|false|untrue)",
    "(?:has|have|was|were) (?:not|never) (?:been )?(?:hacked|approved|listed|halted|acquired|exploited|breached|arrested)",
    "否认", "辟谣", "不实", "不属实", "澄清", "[系为是]谣言", "(?:并未|从未)(?!披露|公布|透露|说明)", "未批准",
)  # fmt: skip
NO_DENIAL = _any(
    "den(?:y|ies|ied) (?:any )?wrongdoing", "not (?:denied|deny)",
    "den(?:y|ies|ied) (?:\\w+ ){0,4}(?:motion|application|request|appeal|petition|bail|licen[cs]e)", "否认有罪",
)  # fmt: skip
"""A denial of guilt or of a motion leaves what is told as it is."""
CORRECTS = _any("correction\\b", "corrects?\\b", "corrected\\b", "erratum", "更正", "勘误", "订正")
PLANS = _any(
    "will\\b", "plans? to\\b", "about to\\b", "set to\\b", "(?:is|are) to \\w+", "upcoming", "coming soon",
    "^(?:\\S+\\s+){1,4}to (?:soon )?(?:list|launch|accept|acquire|buy|sell|support|add|delist|raise|close|charge)\\b",
    "tomorrow\\b", "next (?:week|month|quarter|year)\\b",
    "即将", "将于", "将在", "将要", "(?<![虚模])拟", "计划", "明[日天年]", "下(?:周|个?月|季度)",
    "将(?:正式|陆续|逐步|全面|首次|同步)?(?:上[线架币市]|下架|退市|开放|开通|推出|发[布行]|启动|停止|关闭|暂停|恢复|支持|收购|接受|投资|融资|升级|增发|销毁|回购|新增|移除|空投|解锁|[加降]息)",
)  # fmt: skip
"""Words of a plan. 将 before a verb is one; before a thing that is acted on (“将 5,000 枚 ETH 转走”) it is none."""
UNNAMED = _any(
    "insider", "sources? (?:say|said|close|familiar)", "people familiar", "traders? say", "admin says", "知情人士", "内部人士",
    "消息人士",
)  # fmt: skip
NAMED = _any(
    "according to\\b", "citing\\b", "says?\\b", "said\\b", "tells\\b", "confirms?\\b", "announc", "disclos", "filing", "press release",
    "^(?!更正|勘误|快讯|突发|传闻|网传|correction|breaking|rumou?r|update)[^:：]{2,30}[:：]", "据\\S{2,12}(?:报道|公告|披露)", "宣布", "确认", "公告", "发布", "表示",
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
SMALL_TALK = _any(
    "hello\\b", "hi\\b", "hey\\b", "gm\\b", "gn\\b", "lol\\b", "thanks?\\b", "good (?:morning|evening|night)", "how are you",
    "你好", "您好", "大家", "早上好", "晚安", "谢谢", "哈哈", "天气", "请问", "谁知道", "怎么",
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
EXCHANGES: Final = (
    "Binance", "币安", "Coinbase", "Kraken", "OKX", "欧易", "Bybit", "KuCoin", "Bitfinex", "Gemini", "Upbit", "Bithumb", "Bitget",
    "Gate.io", "HTX", "火币",
)  # fmt: skip
NO_TICKER: Final = frozenset("ETF ETFS ETP SEC CFTC US USD NFT NFTS".split())  # noqa: SIM905
"""Capitals after “list” that are no coin."""
PREDICATE_WORDS: Final[dict[str, tuple[tuple[str, re.Pattern[str]], ...]]] = {
    "listing": (
        ("delists", _any("delist", "下架")),
        ("files", _any("files?\\b", "registers?\\b", "提交", "申请")),
        ("lists", _any("list", "上线", "上币", "上架")),
    ),
    "hack": (
        ("reimburses", _any("reimburs", "refund", "赔付", "补偿")),
        ("recovers_funds", _any("recovered\\b", "returned\\b", "追回", "归还")),
        ("account_taken_over", _any("account (?:was )?(?:hacked|compromised|taken over)", "账[号户](?:被盗|遭入侵)")),
        (
            "hacked",
            _any(
                "hack", "exploit", "stole", "drain", "breach", "attack", "loses?\\b", "被盗", "攻击", "黑客", "盗走", "损失",
            ),
        ),
        ("leaks_data", _any("leak", "泄露")),
    ),
    "regulation": (
        ("rejects", _any("reject", "den(?:y|ies|ied)\\b", "驳回", "拒绝", "未批准")),
        ("delays", _any("delay", "postpone", "推迟", "延期")),
        ("arrests", _any("arrest", "red notice", "逮捕", "被捕", "通缉")),
        ("settles", _any("settle", "guilty", "和解", "认罪")),
        ("fines", _any("fine[sd]?\\b", "罚款")),
        ("charges", _any("charg(?:e|es|ed)\\b", "indict", "指控")),
        ("sues", _any("sues?\\b", "lawsuit", "起诉")),
        ("bans", _any("ban(?:s|ned)?\\b", "illegal", "禁止", "非法")),
        ("sanctions", _any("sanction", "制裁")),
        ("investigates", _any("investigat", "probe", "调查")),
        ("rules", _any("rules\\b", "ruling", "sides with", "裁定", "裁决")),
        ("approves", _any("approv", "grants?\\b", "批准", "获批")),
        ("licenses", _any("licen[cs]e", "牌照")),
        ("enacts", _any("takes effect", "legal tender", "law\\b", "生效")),
    ),
    "partnership": (
        ("ends", _any("ends\\b", "ended\\b", "suspend", "terminat", "终止", "暂停")),
        ("acquires", _any("acqui", "merger", "收购", "并购")),
        ("accepts_payment", _any("accept", "payments?\\b", "接受", "支付")),
        ("invests", _any("invest", "bought\\b", "投资")),
        ("partners", _any("partner", "collaborat", "合作", "战略协议")),
    ),
    "depeg": (("depegs", _any("depeg", "de-peg", "peg\\b", "falls", "脱锚", "跌")),),
    "liquidation": (
        ("halts_withdrawals", _any("withdrawal", "暂停提")),
        ("bankrupt", _any("chapter 11", "bankrupt", "insolven", "破产", "资不抵债")),
        ("liquidated", _any("liquidat", "清算", "爆仓")),
    ),
    "funding": (("raises", _any("rais", "series [a-e]\\b", "funding", "融资", "领投")),),
    "whale": (
        ("sells", _any("sold\\b", "sells?\\b", "dump", "抛售", "清仓", "卖出")),
        ("buys", _any("bought\\b", "buys?\\b", "买入", "增持")),
        ("transfers", _any("moved\\b", "transfer", "转")),
    ),
    "product": (
        ("delays", _any("delay", "postpone", "推迟", "延期")),
        ("upgrades", _any("upgrade", "hard ?fork", "merge\\b", "升级", "硬分叉")),
        ("launches", _any("launch", "mainnet", "testnet", "主网", "发布")),
    ),
    "macro": (
        ("cuts_rate", _any("cut", "降息")),
        ("raises_rate", _any("hike", "raise", "加息")),
        ("holds_rate", _any("h[eo]ld", "unchanged", "维持")),
        ("reports_figure", _any("CPI\\b", "inflation", "通胀")),
    ),
    "governance": (
        ("passes", _any("pass", "approv", "通过")),
        ("rejects", _any("reject", "否决")),
        ("proposes", _any("propos", "vote", "提案", "投票")),
    ),
    "airdrop": (("airdrops", _any("airdrop", "空投")),),
    "celebrity": (("endorses", _any("endors", "代言")), ("says", _any("tweet", "says?\\b", "发推"))),
    "scam_alert": (
        ("scams", _any("doubl", "giveaway", "rug ?pull", "翻倍", "跑路")),
        ("warns", _any("warn", "phishing", "骗局", "钓鱼")),
    ),
}  # fmt: skip
"""Event type -> predicates of its closed list, each with its words. The first that matches wins."""
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
