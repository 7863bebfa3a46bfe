"""Parser of amounts in Chinese and English: plain numbers, so that “$200M stolen” and “被盗 2 亿美元” can be compared."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from math import isfinite, prod

import msgspec
from msgspec.structs import replace

from agents.text.matching import fold_han

_SCALE = {
    "trillion": 1e12, "t": 1e12, "billion": 1e9, "bn": 1e9, "bln": 1e9, "b": 1e9, "million": 1e6, "mln": 1e6, "mio": 1e6, "mn": 1e6, "mm": 1e6, "mil": 1e6, "m": 1e6, "thousand": 1e3, "k": 1e3,
}  # fmt: skip
_HAN = {"十": 1e1, "百": 1e2, "千": 1e3, "万": 1e4, "亿": 1e8}
_EN_SCALE = r"trillion|billion|million|thousand|bn|mn|(?:mio\.|(?:bln|mln|mio|mm|mil|[tbmk])(?![a-z]))"
_HAN_SCALE = "[百千]?万亿|[十百千]?[亿万]|千"
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_AMOUNT = re.compile(
    rf"(?P<sign>[$€£¥])?\s?(?<![\d.a-z])(?<!\d,)(?P<number>{_NUMBER})\s?(?P<scale>{_EN_SCALE}|{_HAN_SCALE})?"
)
_MORE = re.compile(
    rf"\s?零?(?P<number>{_NUMBER})\s?(?P<scale>{_HAN_SCALE})|(?P<units>\d[\d,]{{2,}})(?![\d.]|\s?[年月日%kmbt])"
)
"""The rest of a number after a Chinese scale: “9亿1,400万”, “3万5000”."""
_UNIT_SCALE = re.compile(rf"(?<![a-z])(?:{_EN_SCALE})(?![a-z])|{_HAN_SCALE}", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|rather than|instead of|previously|earlier|initially|up from|down from|from)\b"
    r"|而非|而不是|并非|不是|此前|之前|原先|最初|误[报写作称]"
)
_REACH = 24
"""Maximum characters between a word that rejects an amount and the amount."""
_COINS = re.compile(r"\s?(?:枚|(?:btc|eth|bitcoins?|ether)(?![a-z0-9])|比特币|以太[坊币])")
_PLAIN_FROM = 1_000
_YEARS = range(1990, 2101)
SAME = 0.02
"""Relative difference up to which two amounts are equal, since reports round."""
TENTH = 0.1
"""Relative difference up to which a page's figure is the claimed one."""
ROUND = 0.15
"""The same for a large figure of one digit: “$100M” is what a first report makes of 114."""
ABOVE = 1.5
"""Factor above a claimed “more than” up to which a figure corroborates it: 914 million does for “more than 800 million”."""
_AT_LEAST = re.compile(
    r"(?:(?<!\bno )(?<!\bnot )\b(?:no less than|not less than|no fewer than|not under|not below|more than|over|at least|above|exceed(?:s|ed|ing)?|upwards of|north of|a minimum of|in excess of|surpass(?:es|ed|ing)?|tops|topped)"
    r"|(?<!不)(?:超过?|逾)|至少|突破|不少于|不低于|不下|高达)\s?(?:about |around |约)?(?:us|hk)?[$€£¥]?\s?$"
)
_AT_MOST = re.compile(
    r"(?:(?<!\bno )(?<!\bnot )\b(?:up to|at most|less than|under|below|no more than|not more than|not over|not above|not (?:to )?exceed(?:ing)?|a maximum of)"
    r"|至多|最多|不超过?|不逾|不多于|不高于|不足|(?<!不)低于|不到)\s?(?:about |约)?(?:us|hk)?[$€£¥]?\s?$"
)
_OR_MORE = re.compile(r"\s?(?:以上|を?超(?!\s?\d)|[多余]|\+|or more\b|plus\b|이상)")
_NOT_THIS = re.compile(
    r"(?:\b(?:not(?! (?:more|less|fewer|over|under|above|below|(?:to )?exceed))|rather than|instead of)\b[^.,;:\d]{0,14}|\b(?:previously|earlier|initially|from)\s(?:about |around |the |a )*"
    r"|(?:而非|而不是|并非|不是|此前|之前|原先|最初|误[报写作称])[^,。;\d]{0,8})$"
)
"""A word that rejects the figure after it. “From Kraken, $3 million in all” rejects none."""
_WORTH_BEFORE = re.compile(r"(?:\bvalu(?:ed|ation|ing)\b|\bmarket cap|\btvl\b|估值|市值|锁仓)[^.,;。\d]{0,14}[$€£¥]?$")
_WORTH_AFTER = re.compile(
    r"\s?(?:的?(?:估值|市值)|(?:pre-money |post-money )?valuation\b|(?:in )?market cap|(?:in |of )?tvl\b)"
)
"""Words for a valuation, which is another quantity than an amount that was paid, raised or lost."""
_TO = re.compile(r"\s?(-|to|至|到|and)\s?")
_SIGNS = {"$": "usd", "€": "€", "£": "£", "¥": "¥", "₩": "krw", "₿": "btc", "₹": "₹"}
_OTHER_DOLLAR = re.compile(r"(?<![a-z])(?:hk|nt|a|c|s|r)$")
_CODES = {
    "usd": "usd", "usdt": "usd", "usdc": "usd", "eur": "€", "gbp": "£", "jpy": "jpy", "cny": "cny", "rmb": "cny", "hkd": "hk", "krw": "krw",
}  # fmt: skip
_CURRENCIES = frozenset(_CODES.values())
_CODE_BEFORE = re.compile(rf"(?<![a-z\d])(?<!\d )({'|'.join(_CODES)})\s?$")
_CODE_ON_IT = re.compile(rf"(?<![a-z\d])({'|'.join(_CODES)})(?=\d)")
"""A currency's code before the number: “USD 4 million”."""
_UNITS = tuple(
    (unit, re.compile(rf"\s?(?:{words})"))
    for unit, words in (
        ("%", r"%|percent\b|per cent\b|퍼센트|パーセント"),
        ("pp", r"percentage points?\b|个?百分点"),
        ("bp", r"bps?\b|-?basis[ -]points?\b|个?基点"),
        ("hk", r"hkd\b|hong kong dollars?\b|港[元币]"),
        ("usd", r"(?:us ?|u\.s\. ?)?dollars?\b|美[元金]|달러|(?:米)?ドル"),
        ("usd", r"(?:枚 ?)?(?:usd[tc]?|usd1|dai|busd|fdusd|tusd|pyusd|rlusd)(?![a-z0-9])"),
        ("jpy", r"(?:japanese )?yen\b|jpy\b|日[元圆円]|円"),
        ("cny", r"(?:chinese )?yuan\b|cny\b|rmb\b|人民币|元(?!宇宙)"),
        ("krw", r"(?:korean )?won\b|krw\b|韩[元圆]|원"),
        ("€", r"euros?\b|eur\b|欧元"),
        ("£", r"pounds?\b|gbp\b|英镑"),
        ("btc", r"(?:[枚个] ?)?(?:btc(?![a-z0-9])|bitcoins?(?![a-z])|比特币)"),
        ("eth", r"(?:[枚个] ?)?(?:eth(?![a-z0-9])|ether(?:eum)?(?![a-z])|以太[坊币])"),
        ("people", r"(?:万?名?(?:用户|客户|员工|人))|users?\b|customers?\b|people\b|clients?\b|employees\b"),
    )
)
"""Units with all their spellings. Only figures of the same unit are compared."""
_NOUN = re.compile(r"\s?(?:枚|个)?\s?([a-z][a-z0-9]{1,14})\b")
_NO_UNIT = frozenset([
    "in", "of", "from", "to", "on", "at", "and", "by", "for", "was", "were", "worth", "after", "has", "have", "had",
    "is", "are", "with", "that", "as", "this", "over", "more", "less", "lost", "stolen", "drained", "or", "since",
    "the", "its", "but", "during", "into", "through", "out", "per", "while", "which", "who", "will", "would", "a",
    "an", "it", "off", "not", "than", "so", "moved", "gone", "missing", "left", "taken", "raised", "when", "within",
    "between", "us"
])  # fmt: skip
"""Words that follow a number and are not its unit."""
_HAN_DIGITS = {digit: n for n, digit in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}
_HAN_NUMERAL = re.compile(
    r"(?<![一二两三四五六七八九十百千第数几\d.])[一二两三四五六七八九十][一二两三四五六七八九十百千零〇]*(?=[万亿])"
)
_HAN_SHARE = re.compile(
    r"(?<![一二两三四五六七八九十百千第唯统同单])([一二两三四五六七八九])成([一二三四五六七八九半])?"
    r"(?![员立功为交长本都果年人语就熟效份分不了型群])"
)
_OF_MONEY = r"(?=\s?(?:美[元金]|港[元币]|日元|韩元|欧元|英镑|人民币|元(?!宇宙)|枚|usd))"
_VAGUE_HAN = re.compile(
    rf"(?<![一二两三四五六七八九十百千\d.第])(?:([数几])([十百千]?)|[上逾超过达近]?([百千]?))([万亿]){_OF_MONEY}"
)
_VAGUE = re.compile(r"\b(tens|dozens|hundreds) of (thousand|million|billion|trillion)s(?: of)?\b")
_MOST_OF = 9
"""“Hundreds of millions” are 200 to 900, 千万 is 10 to 90 million, and the tenth reaches up to the next word's."""
_POINTS = re.compile(
    r"(?<!and )(?<!and-)(?<!and a )(?<!and-a-)\b(?:an? |one[- ])?(half|quarter|three[- ]quarters?)[- ](?:of )?(?:an? )?(?:percentage[- ])?point\b"
    r"|(?<!点)(半|四分之[一三])个百分点"
)
"""Parts of a percentage point. “The third quarter points to growth” and “one and a half points” do not match."""
_NO_COINS = re.compile(
    r"(?:\b(?:in|since|by|until|from|top|phase|no\.|day|version|jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)[. ]*)$"
)
"""Words that make the number before a coin a date or a place in a list: “on Nov 5 SOL rose”, “in 2025 SOL”, “top 5 SOL ETFs”."""
_COINS_THINGS = re.compile(
    r"\s?(?:=|[a-z]*-|(?:etfs?|etps?|funds?|products?|pairs?|pools?|wallets?|addresses|holders?|validators?|treasur(?:y|ies)|markets?|futures|contracts?|tokens? holders?|perps?)\b)"
)
"""Words after a coin that make the number count something else (“2 SOL ETFs”) or a price (“1 SOL = $150”)."""
_WORD_DIGITS = {
    word: n
    for n, word in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"],
        start=1,
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "a": 1}  # fmt: skip
_WORD_NUMERAL = re.compile(
    rf"(?<!half )\b({'|'.join(_WORD_DIGITS)})( hundred)?[ -](?=(?:million|billion|trillion|thousand)\b)"
)
_HALF = re.compile(
    r"\b(?:(half)|a quarter|one quarter|(three[- ]quarters)) (?:of )?an? (?=million\b|billion\b|trillion\b)"
)
_MIXED = re.compile(r"(?<![\d/.])(\d{1,2})(?:[- ]|(?=[1-7]⁄))([1-7])[/⁄]([248])(?![\d/])")
"""A mixed fraction, as in the Federal Reserve's range “3-1/2 to 3-3/4 percent”. 3½ folds to 31⁄2."""
_FRACTION = re.compile(r"(?<![\d/.])([1-3])[/⁄]([248])(?![\d/])(?=\s?(?:%|percent|of a percent|个?百分点))")
_KOREAN = re.compile(r"(?<=\d)\s?([만억조])")
_KOREAN_SCALE = {"만": "万", "억": "亿", "조": "万亿"}
_SOME_MORE = re.compile(rf"(?<!\d)(?<!\d[,.])({_NUMBER})\s?[多余几]\s?({_HAN_SCALE})")


class Amounts:
    """The amounts that a text states as ``given``, and those that it rejects as ``wrong``, such as “not 500,000”."""

    __slots__ = ("given", "wrong")

    def __init__(self, text: str) -> None:
        """``text`` must be folded and in lower case."""
        given, wrong = set[float](), set[float]()
        at = 0
        while (match := _AMOUNT.search(text, at)) is not None:
            value, at = _whole(text, match)
            plain = match["scale"] is None and match["sign"] is None and not _COINS.match(text, at)
            if (
                not isfinite(value)
                or text.startswith("%", at)
                or (plain and (value < _PLAIN_FROM or int(value) in _YEARS))
            ):
                continue
            before = text[max(0, match.start() - _REACH) : match.start()]
            set_aside = list(_NOT.finditer(before))
            # “not 500,000 but 401,000”: the rejecting word applies only to the next amount.
            aside = bool(set_aside) and not any(c.isdigit() for c in before[set_aside[-1].end() :])
            (wrong if aside else given).add(value)
        self.given, self.wrong = frozenset(given), frozenset(wrong)

    @property
    def all(self) -> frozenset[float]:
        """Every amount, stated or rejected."""
        return self.given | self.wrong


def share(own: frozenset[float], other: frozenset[float], *, within: float = SAME) -> bool:
    """Return whether any amount of one set equals any of the other, up to the relative difference ``within``."""
    return any(abs(a - b) <= within * max(a, b) for a in own for b in other)


def stated(value: float, unit: str) -> tuple[float, str]:
    """Return a figure and its unit as one plain number and the bare unit.

    ``9.14`` and “亿美元” give 914,000,000 and “美元”; ``100`` and “million USD” give 100,000,000 and “USD”.
    """
    folded = fold_han(unit)
    scale = _UNIT_SCALE.search(folded)
    if scale is None:
        return value, folded
    return round(value * _scale(scale[0].lower()), 6), " ".join(
        (folded[: scale.start()] + folded[scale.end() :]).split()
    )


class Figure(msgspec.Struct, frozen=True):
    """A figure with its unit, as a range of values: “more than 40M” is 40 to 60 million.

    ``value`` is the number as written (the lower end of a range). ``is_bound``: the text gives a minimum or a maximum.
    """

    value: float
    low: float
    high: float
    unit: str
    is_bound: bool = False

    def agrees(self, reported: Figure) -> bool:
        """Return whether a reported figure can be this claimed one: within a tenth, or a little more for a round figure.

        A bound has its own allowance. A claimed “more than” is the exception: a larger figure corroborates it.
        The caller compares the units.
        """
        claims_more = self.is_bound and self.high > self.value
        return _reaches(self, reported) and (
            reported.low * (1 - TENTH) <= self.high if claims_more else _reaches(reported, self)
        )


def _reaches(low: Figure, high: Figure) -> bool:
    """Return whether the low end of one figure is not above the high end of another."""
    if (low.is_bound and low.low < low.value) or (high.is_bound and high.high > high.value):
        return low.low <= high.high
    is_round = not low.is_bound and not high.is_bound and (_is_round(low.value) or _is_round(high.value))
    return low.low * (1 - (ROUND if is_round else TENTH)) <= high.high


def figures(text: str, coins: Collection[str] = ()) -> tuple[Figure, ...]:
    """Return the figures of a text that have a unit: money, coins, percentages, counts. Rejected figures are left out.

    ``text`` must be folded and in lower case (:func:`agents.evidence.passages.folded`). ``coins``: tickers in lower case
    that also count in small numbers; other nouns count from 1,000.
    """
    plain = _digits(text)
    placed: list[tuple[Figure, int]] = []
    at = 0
    while (match := _AMOUNT.search(plain, at)) is not None:
        value, at = _whole(plain, match)
        start = match.start("sign" if match["sign"] else "number")
        is_year = value in _YEARS and "," not in match["number"]
        large = match["scale"] is not None or (value >= _PLAIN_FROM and not is_year)
        unit, end = _unit(plain, start, at, large=large, coins=coins)
        before, after = plain[max(0, start - _REACH) : start], plain[end : end + _REACH]
        if not isfinite(value) or value <= 0 or _NOT_THIS.search(before):
            continue
        if unit and (_WORTH_BEFORE.search(before) or _WORTH_AFTER.match(after)):
            unit = f"{unit} of value"
        figure = _bounded(value, unit, before, after)
        if placed and (join := _TO.fullmatch(plain, placed[-1][1], start)) is not None:
            first, _ = placed[-1]
            between = join[1] != "and" or "between" in plain[max(0, start - 2 * _REACH) : start]
            if between and (first.unit in {"", unit} or (unit == "" and match["scale"])):
                placed.pop()
                figure = _range(first, figure, _scale(match["scale"]))
        placed.append((figure, end))
        at = max(at, end)
    return tuple(f for f, _ in placed if f.unit)


def _is_round(value: float) -> bool:
    return value >= _PLAIN_FROM and float(f"{value:.0e}") == value


def differing(claimed: Sequence[Figure], reported: Sequence[Figure]) -> tuple[Figure, Figure] | None:
    """Return the claimed figure and the nearest reported one if no two figures of one unit agree; else None."""
    pairs = [(c, t) for c in claimed for t in reported if c.unit == t.unit]
    if not pairs or any(c.agrees(t) for c, t in pairs):
        return None
    return min(pairs, key=lambda p: max(p[0].value, p[1].value) / min(p[0].value, p[1].value))


def main_figures(claimed: Iterable[Figure], value: float | None, unit: str) -> tuple[Figure, ...]:
    """Return the claim's figures that equal its stated amount, or all figures if no amount is stated.

    ``unit``: unit of the stated amount, used if the text does not contain it.
    """
    stated = tuple(claimed)
    if value is None or value <= 0:
        return stated
    same = tuple(f for f in stated if abs(f.value - value) <= SAME * max(f.value, value))
    known, _ = _unit(f"1 {fold_han(unit).lower()}", 0, 1, large=True)
    return same or ((_exactly(value, known),) if known else ())


def _exactly(value: float, unit: str) -> Figure:
    # A percentage point is a hundred basis points.
    value, unit = (100 * value, "bp") if unit == "pp" else (value, unit)
    return Figure(value, value, value, unit)


def _bounded(value: float, unit: str, before: str, after: str) -> Figure:
    """Return the figure, with a bound if the words around it make it a minimum or a maximum."""
    plain = _exactly(value, unit)
    if _AT_LEAST.search(before) or _OR_MORE.match(after):
        return replace(plain, high=ABOVE * plain.high, is_bound=True)
    return replace(plain, low=plain.low / ABOVE, is_bound=True) if _AT_MOST.search(before) else plain


def _range(first: Figure, last: Figure, scale: float) -> Figure:
    # “30-40 million” writes the scale once.
    low = first.low * scale if first.low * scale <= last.high else first.low
    return Figure(min(low, last.low), min(low, last.low), max(low, last.high), last.unit or first.unit)


def _unit(text: str, start: int, end: int, *, large: bool, coins: Collection[str] = ()) -> tuple[str, int]:
    """Return the unit of the number between ``start`` and ``end``, and the end of the unit; "" for an unknown unit.

    ``large``: a noun after the number may be its unit.
    """
    sign = text[start] if text[start] in _SIGNS else text[max(0, start - 1) : start]
    signed = _SIGNS.get(sign) if sign else None
    for unit, words in _UNITS:
        # “$500 million Bitcoin” is dollars: of what follows a sign, only another currency counts.
        if (not signed or unit in _CURRENCIES) and (match := words.match(text, end)) is not None:
            return unit, match.end()
    if sign == "$" and (of := _OTHER_DOLLAR.search(text, max(0, start - 3), start)) is not None:
        return of[0], end
    if signed:
        return signed, end
    if (code := _CODE_BEFORE.search(text, max(0, start - 6), start)) is not None:
        return _CODES[code[1]], end
    noun = _NOUN.match(text, end) if large or coins else None
    if noun is None or noun[1] in _NO_UNIT or not (large or _are_few(text, start, noun, coins)):
        return "", end
    return noun[1].removesuffix("s"), noun.end()


def _are_few(text: str, start: int, noun: re.Match[str], coins: Collection[str]) -> bool:
    """Return whether the number before a noun counts coins, and is not a date, a price, or a count of something else."""
    return (
        noun[1] in coins
        and _COINS_THINGS.match(text, noun.end()) is None
        and _NO_COINS.search(text, max(0, start - _REACH), start) is None
    )


def _digits(text: str) -> str:
    """Return the text with its numerals in digits: “three hundred million” and 三亿 as 300 million, 4000多万 as 超4000万."""
    plain = _POINTS.sub(lambda m: f"{_points(m[1] or m[2])} bp", text)
    plain = _VAGUE_HAN.sub(_of_vague_han, plain)
    plain = _VAGUE.sub(lambda m: _about(2 * (100 if m[1] == "hundreds" else 10) * _scale(m[2]), _MOST_OF / 2), plain)
    plain = _HAN_SHARE.sub(lambda m: f"{10 * _HAN_DIGITS[m[1]] + (_HAN_DIGITS.get(m[2], 5) if m[2] else 0)}%", plain)
    plain = _HAN_NUMERAL.sub(lambda m: f"{_of_han(m[0]):g}" if len(m[0]) < 12 else m[0], plain)
    plain = _HALF.sub(lambda m: "0.5 " if m[1] else "0.75 " if m[2] else "0.25 ", plain)
    plain = _WORD_NUMERAL.sub(_of_words, plain)
    plain = _CODE_ON_IT.sub(r"\1 ", plain)
    plain = _MIXED.sub(lambda m: f"{int(m[1]) + int(m[2]) / int(m[3]):g}", plain)
    plain = _FRACTION.sub(lambda m: f"{int(m[1]) / int(m[2]):g}", plain)
    plain = _KOREAN.sub(lambda m: _KOREAN_SCALE[m[1]], plain)
    return _SOME_MORE.sub(r"超\1\2", plain)


def _points(word: str) -> int:
    return 50 if word in {"half", "半"} else 75 if word.startswith(("three", "四分之三")) else 25


def _about(least: float, times: float) -> str:
    return f"{least:.0f}-{least * times:.0f} "


def _of_vague_han(match: re.Match[str]) -> str:
    several, of_several, plain, scale = match.groups()
    if not several and not plain and match[0] == scale:
        return match[0]  # a scale alone is no figure
    unit = prod(_HAN.get(letter, 1.0) for letter in f"{of_several or plain or ''}{scale}")
    return _about(2 * unit, _MOST_OF / 2) if several else _about(unit, _MOST_OF)


def _of_han(numeral: str) -> float:
    total, digit = 0.0, 0.0
    for letter in numeral:
        if letter in _HAN:
            total, digit = total + (digit or 1.0) * _HAN[letter], 0.0
        else:
            digit = float(_HAN_DIGITS[letter])
    return total + digit


def _of_words(match: re.Match[str]) -> str:
    return f"{_WORD_DIGITS[match[1]] * (100 if match[2] else 1)} "


def _whole(text: str, match: re.Match[str]) -> tuple[float, int]:
    """Return the value of an amount with all its parts, each smaller than the scale before it, and where it ends."""
    value, at, scale = _number(match["number"]) * _scale(match["scale"]), match.end(), _scale(match["scale"])
    while (match["scale"] or "")[-1:] in _HAN and (more := _MORE.match(text, at)) is not None:
        part = _number(more["units"] or more["number"]) * _scale(more["scale"])
        if part >= scale:
            break
        value, at, scale = value + part, more.end(), _scale(more["scale"])
    return value, at


def _number(digits: str) -> float:
    return float(digits.replace(",", ""))


def _scale(word: str | None) -> float:
    return _SCALE.get((word or "").rstrip(".")) or prod(_HAN.get(letter, 1.0) for letter in word or "")
