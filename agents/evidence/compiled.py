"""The tables of a snapshot, compiled once per content."""

from __future__ import annotations

from collections import OrderedDict

from agents.evidence.credibility import CredibilityTable
from agents.evidence.entities import EntityIndex
from agents.evidence.hosts import Imitations, host_of, path_of
from agents.evidence.stance import Grammar
from agents.text.matching import fold_han, words_regex
from schemas.config import Entity, Tables
from schemas.ids import content_hash

WIRES = frozenset(
    {
        "prnewswire.com",
        "businesswire.com",
        "globenewswire.com",
        "accesswire.com",
        "chainwire.org",
        "einpresswire.com",
        "newswire.com",
        "prweb.com",
    }
)
OUTLETS = {
    "theinformation.com": ("The Information",), "coindeskkorea.com": ("CoinDesk Korea", "코인데스크코리아"),
    "bloomberg.com": ("Bloomberg", "Bloomberg News", "彭博", "彭博社"), "reuters.com": ("Reuters", "路透", "路透社"),
    "coindesk.com": ("CoinDesk",), "theblock.co": ("The Block",), "wublock123.com": ("吴说", "吴说区块链", "Wu Blockchain", "WuBlockchain"),
    "panewslab.com": ("PANews",), "cointelegraph.com": ("Cointelegraph",), "wsj.com": ("Wall Street Journal", "The Wall Street Journal", "WSJ", "华尔街日报"),
    "ft.com": ("Financial Times", "FT", "金融时报"), "odaily.news": ("Odaily", "Odaily 星球日报", "星球日报"), "jinse.cn": ("金色财经",),
    "decrypt.co": ("Decrypt",), "dlnews.com": ("DL News",), "cnbc.com": ("CNBC",), "nytimes.com": ("New York Times", "The New York Times", "纽约时报"),
    "blockworks.co": ("Blockworks",), "foresightnews.pro": ("Foresight News",), "chaincatcher.com": ("ChainCatcher", "链捕手"), "theblockbeats.info": ("BlockBeats", "律动"),
    "prnewswire.com": ("PR Newswire", "PRNewswire"), "businesswire.com": ("Business Wire", "BusinessWire"), "globenewswire.com": ("GlobeNewswire", "GLOBE NEWSWIRE"),
    "caixin.com": ("Caixin", "财新"), "yicai.com": ("Yicai", "第一财经"), "cls.cn": ("财联社",), "nikkei.com": ("Nikkei", "日经"), "apnews.com": ("AP", "Associated Press", "美联社"),
    "fortune.com": ("Fortune",), "forbes.com": ("Forbes", "福布斯"), "axios.com": ("Axios",), "politico.com": ("Politico",), "wired.com": ("Wired",), "cnn.com": ("CNN",),
    "techcrunch.com": ("TechCrunch",), "thedefiant.io": ("The Defiant",), "8btc.com": ("巴比特",), "techflowpost.com": ("TechFlow", "深潮"), "scmp.com": ("South China Morning Post", "SCMP", "南华早报"),
}  # fmt: skip
_KEPT = 8
"""Size of the cache. A worker meets new tables only at a hot configuration change, a backtest a handful."""


class Compiled:
    """All compiled lookups that the evaluation needs from one set of tables."""

    def __init__(self, tables: Tables) -> None:
        lexicon = tables.lexicon
        self.entities = EntityIndex(tables)
        self.spoof_affixes = frozenset(lexicon.get("spoof_affixes", ()))
        self.imitations = Imitations(self.entities.by_domain, self.spoof_affixes)
        self.credibility = CredibilityTable(tables.credibility)
        self.grammar = Grammar(lexicon)
        self.name_stopwords = frozenset(lexicon.get("name_stopwords", ()))
        self.ambiguous_names = frozenset(lexicon.get("ambiguous_names", ()))
        self.claimant_affixes = frozenset(lexicon.get("claimant_affixes", ()))
        self.claimant_platforms = frozenset(lexicon.get("claimant_platforms", ()))
        hosts = lexicon.get("user_content_hosts", ())
        self._user_hosts = tuple(h for h in hosts if not h.endswith("."))
        self._user_labels = frozenset(h[:-1] for h in hosts if h.endswith("."))
        self._user_paths = frozenset(lexicon.get("user_content_paths", ()))
        self.official_words = tuple(w.casefold() for w in lexicon.get("official", ()))
        self.moods = tuple(tuple(w.casefold() for w in lexicon.get(m, ())) for m in ("panic", "neutral", "optimistic"))
        self.asset_names = {k.split("/", 1)[1]: v for k, v in lexicon.items() if k.startswith("asset/")}
        self._outlets = {fold_han(n).casefold(): d for d, names in OUTLETS.items() for n in names}
        self.common_words = frozenset(lexicon.get("common_words", ()))
        self.filler = words_regex(lexicon.get("filler", ()))

    def outlet_of(self, name: str) -> str | None:
        """Return the registrable domain of an outlet or a press wire by the name that texts cite it by, else None."""
        return self._outlets.get(fold_han(name).casefold().strip())

    def is_user_content(self, url: str) -> bool:
        """Whether anybody can publish at this address, even on an official domain."""
        host = host_of(url)
        if (
            any(host == h or host.endswith(f".{h}") for h in self._user_hosts)
            or host.split(".")[0] in self._user_labels
        ):
            return True
        first = [p for p in path_of(url).split("/") if p][:3]
        return any(p in self._user_paths for p in first)


_by_identity: OrderedDict[int, tuple[Tables, Compiled]] = OrderedDict()
_by_content: OrderedDict[str, Compiled] = OrderedDict()


def compiled(tables: Tables) -> Compiled:
    """Return the compiled tables. Equal tables give the same object.

    The cache keeps a reference to the tables, so that the ``id`` of a cached one is never reused.
    """
    known = _by_identity.get(id(tables))
    if known is not None:
        return known[1]
    key = content_hash(tables)
    made = _by_content.get(key) or Compiled(tables)
    _by_content[key] = made
    _by_identity[id(tables)] = (tables, made)
    while len(_by_identity) > _KEPT:
        _by_identity.popitem(last=False)
    while len(_by_content) > _KEPT:
        _by_content.popitem(last=False)
    return made


def entities_in(text: str, tables: Tables) -> tuple[Entity, ...]:
    """Return the entities that a text names (zh and en aliases, whole words, longest first), in the text's order."""
    return compiled(tables).entities.mentioned(text)
