"""Detection of prompt injection: text that tries to steer the model, and invisible characters that hide it.

A match does not prove an attack. It drops a page from the evidence and flags the signal, which costs one source; a
missed attack would let a page write its own verdict.
"""

from __future__ import annotations

import re
import unicodedata

from agents.text.han import simplified
from agents.text.injection_languages import steers_in_some_language
from agents.text.matching import CJK, has_cjk
from agents.text.skeleton import ascii_skeleton

_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def strip_invisible(text: str) -> str:
    """Return the text without invisible characters: zero width, bidi, tags, most controls."""
    if text.isascii() and text.replace("\n", " ").isprintable():
        return text  # fast path for most texts
    return _INVISIBLE.sub("", text)


_FIELDS = (
    r"(?:confidence|official[_ ]confirmed|multi[_ ]source|risk[_ ]flags?|independent[_ ]sources|action|verdict|stance)"
)
_EN = (
    r"\b(?:ignore|disregard|forget|override|bypass|skip)\b[^.!?\n]{0,40}\b(?:previous|prior|above|earlier|preceding|your|system|all)\b"
    r"[^.!?\n]{0,30}\b(?:instructions?|prompts?|rules|directions|directives|guidelines|context|messages?|checks)\b",
    r"\b(?:new|updated|real|actual|hidden|developer|system)\s+(?:instructions?|prompt|directives?)\s*(?::|are\b|follow)",
    r"(?:^|[\s>\]\"'#*])(?:system|assistant|developer)\s*[:\]>]+\s*[^.\n]{0,80}\b(?:must|you|set|ignore|output|override|mark|return|treat)\b",
    r"\b(?:the\s+)?(?:analyst|model|assistant|ai|llm|verifier|agent|classifier|reviewer|system)\s+(?:must|should|shall|has to|needs to|is to)\s+"
    r"(?:now\s+)?(?:set|output|mark|answer|respond|treat|rate|conclude|classify|ignore|assign)\b",
    rf"\b(?:set|output|return|assign|raise|change|make|force|give|put)\b[^.!?\n]{{0,30}}\b{_FIELDS}\b[^.!?\n]{{0,12}}(?:\bto\b|=|:|\b(?:true|false|high|max|buy|sell)\b|[01](?:\.\d+)?\b|100)",
    r"\b(?:output|answer|respond|reply|return|print|say)\b[^.!?\n]{0,25}\b(?:buy|sell)\b[^.!?\n]{0,25}\bconfidence\b",
    r"\bofficial_confirmed\b|\bdecide_next_tools\b|\brisk_flags\b",
    r"</?\s*(?:evidence|system|instructions?|prompt|untrusted|news|document|context|tool_result|assistant|user)\s*/?>",
    r"<\|[a-z_]{2,30}\|>|\[/?(?:inst|sys)\]|<<\s*/?sys\s*>>|\bbegin system prompt\b|###\s*(?:system|instruction)",
    r"\byou are (?:now|no longer)\b[^.!?\n]{0,30}\b(?:ai|assistant|model|analyst|dan|unrestricted|system|bound|bot|agent)\b",
    r"\b(?:act|behave|respond) as (?:an? |the )?(?:ai|assistant|language model|system|unrestricted)\b",
    r"\b(?:mark|treat|classify|label|rate|count|accept|report)\s+(?:this|it|the claim|the page|this page|this article|this source)[^.!?\n]{0,20}"
    r"\bas\s+(?:an?\s+)?(?:fully\s+)?(?:official|verified|confirmed|true|independent|high[- ]confidence|supported|authoritative)\b",
    r"\bdo not (?:search|verify|fact-check|check (?:any|other) sources|use (?:any )?(?:other )?(?:tools|sources)|mention this)\b",
    r"\b(?:dear|attention|note to|message to|instructions? (?:to|for))\s+(?:the\s+)?(?:ai|llm|language model|model|assistant|crawler|bot|chatbot|gpt|gemini|analyst model)\b",
    r"\bif you are an? (?:ai|llm|language model|assistant|automated)\b",
    r"\b(?:assistant|model|ai|llm|verifier|analyst|agent)\s+(?:must|should|shall|has to|needs to)\s+(?:now\s+)?"
    r"(?:cite|print|trust|search for|give the link|append|load)\b",
    r"\b(?:print|reveal|show|output|repeat|leak|write|send)\b[^.!?\n]{0,30}\b(?:system prompt|your (?:prompt|instructions|context))\b",
    r"\b(?:pay no attention to|set aside|disregard|forget)\b[^.!?\n]{0,30}\byou (?:were (?:told|given)|received|have been (?:told|given))\b",
    r"\b(?:repeat|print|output|copy)\s+(?:everything|all|the text)\s+above\b",
    r"<(?:start|end)_of_[a-z]+>|\"(?:tool_calls|function_call|arguments|verdict|stance)\"\s*:|[\[【〚⟦]\s*+(?:/\s*+)?+untrusted\b",
    r"\b(?:ai (?:agents|models|assistants|reviewers|readers|systems)|llms|language models|chatbots)\s+(?:must|should|shall|have to|need to|are to)\b"
    r"[^.!?\n]{0,40}\b(?:this (?:page|article|text|source|claim)|answer supports|as (?:official|confirmed|verified|true)|confidence|verdict|stance)\b",
    r"\bfacts computed by code\b|<\s*/\s*references?\s*>|\b(?:speaks_for|same_subject|same_event|supporting_sources)\b",
    r"\bverdict\s*:\s*(?:supported|not_enough_evidence)\b",
    r"\b(?:says|subject|act|stage|place|amount|date|slots?)[\"'”]?\s*[:=]\s*[\"'“]?(?:affirms|agrees|differs)(?:[\"'”]|\s*[,;.}\n]|\s*\Z)",
    r"(?:^|\n|[.;:!?\"“(]\s|\b(?:please|must|should|just|always|only)\s)\s*(?:answer|reply|say)\s+[\"'“]?(?:supports|affirms|denies|hedges)\b|"
    r"\bstance\s*[:=]?\s*[\"'“]?(?:supports|denies|hedges)[\"'”]?\s*[,;.]|"
    r"\b(?:supports|hedges)[\"'”]?\s*[,;]?\s*(?:and\s+)?quote\s*:|\banswer (?:supports|denies|hedges|earlier|unrelated) for this page\b",
    r"\b(?:ai|llm|language model)[ -](?:assistant|reader|agent|reviewer|model|bot)s?\b(?:\s*[:,]\s*(?:please\s+)?"
    r"(?:disregard|ignore|trust|answer|treat|state|report|conclude)\b|[^.!?\n]{0,25}\b(?:summari[sz]ing|reading|reviewing|parsing)\s+"
    r"this\s+(?:page|article|text|site)\b[^.!?\n]{0,15}\b(?:must|should|shall|have to|has to|need to|are to)\b)",
)
_ZH = (
    r"(?:忽略|无视|忘记|忘掉|不要理会|不用理会|抛弃|跳过|覆盖)[^。!?\n]{0,12}(?:指令|指示|提示词|提示|prompt|设定|上述内容|以上内容|上文|系统规则|要求)",
    r"(?:系统|开发者|管理员)(?:提示词?|指令|消息|命令|指示)\s*[::]",
    r"(?:^|[\s\n】\]>。])系统\s*[::][^。\n]{0,40}(?:必须|请|应|输出|设置|设为|忽略|标记)",
    r"(?:你|您)(?:现在|从现在起|已经|必须|不再)(?:是|扮演|变成|充当|受|遵守|按照|输出|回答|将|把|给出|判定|标记|认定)",
    r"(?:分析师|分析员|模型|助手|AI|人工智能|大模型|审核员|系统|智能体)(?:必须|应当|应该|务必|需要|请)(?:立即|直接|马上)?(?:将|把|给出|输出|设|标记|判定|返回|回答|认定|忽略|视为)",
    r"(?:把|将|请将|请把|设置|设定|调整)[^。!?\n]{0,12}(?:置信度|可信度|信心值|confidence|官方确认|操作|风险标记)[^。!?\n]{0,8}(?:设|改|调|提高|提升|置|标|填|写)?[^。!?\n]{0,4}(?:为|到|成|至|=)",
    r"(?:置信度|可信度|信心值)\s*(?:必须|务必|应当|应)?\s*(?:设置?为|设成|改为|调为|填|写|输出)",
    r"(?:请|必须|务必|直接|立即|只需|只能|仅)(?:直接|立即|只)?(?:输出|回答|回复|返回|给出)[^。!?\n]{0,12}(?:买入|卖出|buy|sell|看涨|做多|置信度|满分)",
    r"(?:标记|认定|视|判定|归类|当)[^。!?\n]{0,10}(?:为|作|成)(?:官方|已确认|已证实|独立来源|真实|可信)[^。!?\n]{0,6}(?:来源|消息|证据|确认|输出)?[^。!?\n]{0,10}(?:输出|置信|买入|并)",
    r"(?:不要|无需|禁止|不得|不必)(?:再)?(?:搜索|核实|核查|验证|求证|查证|调用工具|联网)[^。!?\n]{0,12}(?:直接|输出|给出|认定|其他来源|其它来源|信源|结论)",
    r"(?:致|告|给)(?:AI|人工智能|大模型|语言模型|助手|模型|机器人)(?:的)?(?:指令|指示|提示|说明|留言|[::])",
    r"(?:AI|人工智能|大模型|语言模型)\s?(?:助手|模型|代理|智能体|读者|机器人)?请?注意\s*[::,,]\s*(?:不要|必须|务必|直接|请|应)",
    r"如果你是(?:一个)?(?:AI|人工智[能慧]|大?语言模型|大模型|助手|机器人)",
    r"(?:输出|泄露|打印|写出|透露|附上|把|将)[^。!?\n]{0,6}(?:系统)?提示词",
    r"(?:回答|回复|填写?|输出|选择?)\s*[\"“「]?(?:supports|affirms|denies|hedges|earlier|unrelated)(?![a-z])|代码计算的事实|(?:审阅|审核|核查)(?:者|员)请填",
)
_FIELD_WORDS = ("confidence", "official", "multi", "risk", "independent", "action", "verdict", "stance")
_SUBJECTS = ("analyst", "model", "assistant", "ai", "llm", "verifier", "agent", "classifier", "reviewer", "system")
_DUTIES = ("must", "should", "shall", "has to", "needs to", "is to")
_ORDERS = ("instruction", "prompt", "directive")
# One row per pattern above: a matching text contains a word of each group. Checking them first saves most of the time.
_NEEDS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("ignore", "disregard", "forget", "override", "bypass", "skip"),
     (*_ORDERS, "rules", "direction", "guideline", "context", "message", "check")),
    (_ORDERS,),
    (("system", "assistant", "developer"), (":", "]", ">")),
    (_SUBJECTS, _DUTIES, ("set", "output", "mark", "answer", "respond", "treat", "rate", "conclude", "classify", "ignore", "assign")),
    (_FIELD_WORDS, ("set", "output", "return", "assign", "raise", "change", "make", "force", "give", "put")),
    (("confidence",), ("buy", "sell")),
    (("official_confirmed", "decide_next_tools", "risk_flags"),),
    (("<",),),
    (("<", "[", "begin system prompt", "###"),),
    (("you are",),),
    (("act as", "behave as", "respond as"),),
    (("mark", "treat", "classify", "label", "rate", "count", "accept", "report"), ("this", "it", "the claim", "the page"),
     ("official", "verified", "confirmed", "true", "independent", "high", "supported", "authoritative")),
    (("do not",),),
    (("dear", "attention", "note to", "message to", "instruction"), (*_SUBJECTS, "crawler", "bot", "gpt", "gemini")),
    (("if you are",),),
    (_SUBJECTS, _DUTIES, ("cite", "print", "trust", "search for", "give the link", "append", "load")),
    (("system prompt", "your "),),
    (("you were", "you received", "you have been"),),
    ((" above",),),
    (("_of_", '":', '" :', "untrusted"),),
    (("ai agents", "ai models", "ai assistants", "ai reviewers", "ai readers", "ai systems", "llms", "language models", "chatbots"),),
    (("computed by code", "<", "speaks_for", "same_subject", "same_event", "supporting_sources"),),
    (("verdict",), ("supported", "not_enough_evidence")),
    (("affirms", "agrees", "differs"), (":", "=")),
    (("supports", "affirms", "denies", "hedges", "earlier", "unrelated"), ("answer", "reply", "say", "stance", "quote")),
    (("ai", "llm", "language model"), ("assistant", "reader", "agent", "reviewer", "model", "bot"),
     (*_DUTIES, "have to", "need to", "are to", "disregard", "ignore", "trust", "answer", "treat", "state", "report", "conclude")),
)  # fmt: skip
_BETWEEN_HAN = re.compile(rf"(?<=[{CJK}])\s+(?=[{CJK}])")
_TAGS = {0xE0000 + letter: letter for letter in range(0x20, 0x7F)}
"""Tag characters repeat ASCII invisibly, and models read them."""
_STEERS_EN = tuple(zip(_NEEDS, (re.compile(p) for p in _EN), strict=True))
_STEERS_ZH = re.compile("|".join(f"(?:{p})" for p in _ZH), re.IGNORECASE)
_SPACED = re.compile(r"\b(?:[a-z][ ._\-*]){5,}[a-z]\b")
"""In a text in lower case."""
_GAPS = re.compile(r"[ ._\-*]")
_JOINED = re.compile(
    r"ignore(?:all|any)?(?:previous|prior|above)|systemprompt|disregard(?:all|previous)|outputbuy|setconfidence"
)


def steers_model(text: str) -> bool:
    """Return whether a text addresses the model that reads it rather than people.

    The text is compared in NFKC form (full-width, mathematical and circled letters become plain) and in lower case,
    with its line breaks and with white space collapsed. tests/agents/verification/test_attacks.py counts what it
    misses.
    """
    if text.isascii():
        low = strip_invisible(text).lower()
    else:
        low = unicodedata.normalize("NFKC", strip_invisible(text.translate(_TAGS))).lower()
    collapsed = " ".join(low.split())
    if _steers(collapsed, low) or steers_in_some_language(collapsed):
        return True
    if not low.isascii():
        plain = ascii_skeleton(collapsed)
        if plain != collapsed and _steers(plain, plain):
            return True
    # Models read spaced letters (“i g n o r e”), which the patterns miss.
    return any(_JOINED.search(_GAPS.sub("", m.group())) for m in _SPACED.finditer(low))


def _steers(collapsed: str, low: str) -> bool:
    """Return whether a text steers, with its white space collapsed or as it is: the former holds every word of the latter."""
    texts = (collapsed,) if low == collapsed else (low, collapsed)
    for needs, pattern in _STEERS_EN:
        if _has_all(collapsed, needs) and any(map(pattern.search, texts)):
            return True
    if not has_cjk(collapsed):
        return False
    # Traditional characters are folded to simplified ones, and spaces between Han characters removed.
    return any(_STEERS_ZH.search(_BETWEEN_HAN.sub("", simplified(text))) for text in texts)


def _has_all(text: str, groups: tuple[tuple[str, ...], ...]) -> bool:
    for group in groups:
        for word in group:
            if word in text:
                break
        else:
            return False
    return True
