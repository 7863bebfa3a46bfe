"""Words of the offline research agents: routing keywords, and phrases in zh and en."""

from __future__ import annotations

import re

GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|thanks|thank you|good (?:morning|afternoon|evening)|你好|您好|嗨|谢谢|多谢|早上好|晚上好)"
    r"(?:\s+(?:there|all|everyone))?[\s,.!?,。!?~呀啊]*",
    re.IGNORECASE,
)
ABOUT_US = re.compile(r"who are you|what can you do|what are you|你是谁|你能做什么|你会什么|怎么使用", re.IGNORECASE)
MEANING = re.compile(
    r"\bwhat(?:'s| is| are| does)\b|\bexplain\b|\bdefine\b|\bmeaning of\b|\bhow (?:do|does)\b.*\bwork"
    r"|什么是|是什么|什么意思|解释|含义|介绍一下|怎么理解|如何计算",
    re.IGNORECASE,
)
OF_TODAY = re.compile(
    r"\b(?:now|today|current(?:ly)?|latest|this (?:week|month)|price|outlook|bullish|bearish|trend|forecast|predict|should"
    r"|buy|sell|next|going to|will|news|signals?)\b"
    r"|现在|今天|目前|当前|最新|本周|价格|行情|走势|看涨|看跌|看多|看空|前景|预测|会涨|会跌|该不该|买|卖|多少|近期|消息|信号|未来",
    re.IGNORECASE,
)
MACRO = re.compile(
    r"\b(?:macro|fed|interest|rates?|inflation|m2|dollar|dxy|yields?|treasur\w+|econom\w+|fear|greed|sentiment)\b"
    r"|宏观|美联储|利率|通胀|美元|国债|收益率|经济|恐惧|贪婪|情绪|流动性",
    re.IGNORECASE,
)
TECHNICAL = re.compile(
    r"\b(?:technical\w*|ta|rsi|macd|ema|sma|moving average|bollinger|support|resistance|chart|overbought|oversold|volume)\b"
    r"|技术|均线|指标|支撑|阻力|布林|超买|超卖|图表|成交量|k线",
    re.IGNORECASE,
)
ON_CHAIN = re.compile(
    r"\b(?:on-?chain|whales?|exchange flows?|inflows?|outflows?|address(?:es)?|mvrv|network|hash ?rate|tvl)\b"
    r"|链上|巨鲸|流入|流出|地址|算力|网络活动",
    re.IGNORECASE,
)
OUTLOOK = re.compile(
    r"\b(?:price|outlook|bullish|bearish|trend|forecast|predict|should|buy|sell|hold)\b"
    r"|价格|行情|走势|看涨|看跌|看多|看空|前景|预测|会涨|会跌|该不该|能买|买入|卖出",
    re.IGNORECASE,
)
ASKS_CASES = re.compile(
    r"\b(?:signals?|cases?|pipeline|news|true|fake|real|rumou?rs?|hoax|verif\w+|confirm\w*|refut\w+|den(?:y|ies|ied)|debunk\w*"
    r"|(?:what|has|have) happened|evidence)\b"
    r"|信号|案例|新闻|消息|真的|真假|是真|属实|假的|谣|传闻|证实|否认|核实|辟谣|发生了什么|怎么回事|证据",
    re.IGNORECASE,
)
HALVES = re.compile(
    r"[?;？；。]\s*|[,，]\s*(?:and|also|以及|还有|另外|同时)\s*|\band\s+(?=(?:also|is|are|was|were|has|have|had|did|does|do|can"
    r"|will|should|what|which|who|why|when|how)\b)|以及|还有|另外",
    re.IGNORECASE,
)
"""Where a question ends and the next one begins, in one message."""
NAMED = re.compile(r"(?<![A-Za-z])[A-Z][A-Za-z0-9.\-]{2,}(?: [A-Z][A-Za-z0-9.\-]+)*")
ASKING = re.compile(
    r"\b(?:what|which|who|where|when|why|how|did|does|do|has|have|had|was|were|is|are|can|could|should|would|will|tell|show|give"
    r"|any|recent|latest|today|breaking|the|a|an|it|this|that|there)\b",
    re.IGNORECASE,
)
"""Words that a question begins or asks with; none of them is a name."""
ALSO = {
    "币安": "Binance", "欧易": "OKX", "火币": "HTX", "特斯拉": "Tesla", "贝莱德": "BlackRock", "灰度": "Grayscale",
    "美国证监会": "SEC", "美联储": "Federal Reserve", "沃尔玛": "Walmart", "亚马逊": "Amazon", "马斯克": "Musk",
    "微软": "Microsoft", "谷歌": "Google", "苹果": "Apple", "以太坊基金会": "Ethereum Foundation",
}  # fmt: skip
"""A Chinese name → the name in English."""
EVENT_NAMES = {
    "hack": ["hack", "exploit", "drained", "stolen", "breach", "黑客", "攻击", "被盗"],
    "listing": ["list", "上线", "上币", "下架"],
    "depeg": ["depeg", "脱锚"],
    "liquidation": ["liquidat", "清算", "爆仓"],
}
"""A type of event → the words of which news of it has one, where there are such words."""
WITHIN = (
    (re.compile(r"\btoday\b|24 h|今天|今日|24 ?小时", re.IGNORECASE), 1),
    (re.compile(r"\bthis week\b|本周|这周|一周", re.IGNORECASE), 7),
    (re.compile(r"\bthis month\b|本月|这个月", re.IGNORECASE), 31),
)
"""What names a time → days back."""
LISTS = re.compile(r"\b(?:which|what|any|list|show)\b|哪些|有没有|列出|所有", re.IGNORECASE)
"""What asks for cases of a kind, rather than about one."""
VERDICTS = {
    "confirmed": re.compile(r"\bconfirmed\b|被?证实", re.IGNORECASE),
    "disputed": re.compile(r"\bdisputed\b|有争议", re.IGNORECASE),
    "refuted": re.compile(r"\b(?:refuted|denied|debunked|fake|false)\b|否认|假|谣", re.IGNORECASE),
}
NEWS = re.compile(r"\b(?:news|signals?|hack\w*|listing|regulation)\b|新闻|消息|信号|黑客|监管|上线", re.IGNORECASE)

PHRASES: dict[str, tuple[str, str]] = {
    "hello": (
        "Hello. I am the offline stand-in of the research chat: rules, not a model. Ask about the outlook of an asset, its "
        "technical indicators, the economy or its chain, what the pipeline's signals say, or whether a piece of "
        "news is true.",
        "你好。我是研究对话的离线替身：由规则而非模型作答。可以询问某个资产的前景、技术指标、宏观环境或链上情况，本系统的信号说了什么，"
        "或者某条消息是否属实。",
    ),
    "unknown_term": (
        "Offline rules explain no terms. With a model configured this one would be explained.",
        "离线规则不解释术语；配置模型后即可得到解释。",
    ),
    "route_direct": ("offline rules: no figures of today are needed", "离线规则：不需要当日数据"),
    "route_cases": ("offline rules: this is looked up in the pipeline's cases", "离线规则：到本系统的案例中查找"),
    "route_both": (
        "offline rules: one half needs figures of today, the other is looked up in the pipeline's cases",
        "离线规则：一半需要当日数据，另一半到本系统的案例中查找",
    ),
    "route_plan": ("offline rules: this needs figures of today", "离线规则：需要当日数据"),
    "plan": (
        "Offline rules: agents by the words of the question; all three where it names none.",
        "离线规则：按问题用词选择智能体；未点名时三者都用。",
    ),
    "task": ("offline rules: words of its field, or an outlook", "离线规则：问题涉及其领域，或询问整体前景"),
    "BULLISH": ("bullish", "看涨"),
    "BEARISH": ("bearish", "看跌"),
    "NEUTRAL": ("neutral", "中性"),
    "label": ("Offline rules, no model", "离线规则（无模型）"),
    "missing": ("Not available", "缺失"),
    "no_figures": (
        "No figures are there, so nothing can be said of today.",
        "没有任何数据，因此无法对当前情况作出判断。",
    ),
    "risk": (
        "Rules weigh each figure alone and know no context; figures that turn would turn this judgement.",
        "规则只逐项衡量数据、不了解背景；数据反转则结论随之反转。",
    ),
    "invented": ("The figures of offline mode are invented, for trying it out.", "离线模式的数据为虚构，仅供试用。"),
    "agents": ("The agents", "各智能体"),
    "figures": ("Figures", "数据"),
    "signals": ("Recent signals of the news pipeline", "新闻流水线的近期信号"),
    "cases": ("Cases about the other half of the question", "关于问题另一半的案例"),
    "other_assets": ("Not answered here, ask for it by itself", "此处未作答，请单独提问"),
    "confidence": ("confidence", "置信度"),
    "overall": ("Overall the picture of {asset} is {signal}.", "总体来看，{asset} 的图景{signal}。"),
}
"""Phrases in English and in Chinese."""


def phrase(name: str, *, zh: bool) -> str:
    return PHRASES[name][1 if zh else 0]
