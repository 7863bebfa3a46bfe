"""Display names of agents, judgements, figures and signals in an answer, in English and in Chinese, as on the page."""

from __future__ import annotations

import re

from agents.analysis.blocks import CALLED
from schemas.evidence import FoundSignal
from schemas.signals import NO_ASSET

NAMES: dict[str, tuple[str, str]] = {
    "SuperAgent": ("Routing agent", "路由智能体"),
    "PlanningAgent": ("Planning agent", "规划智能体"),
    "MacroAgent": ("Macro agent", "宏观智能体"),
    "TAAgent": ("Technical agent", "技术智能体"),
    "OnChainAgent": ("On-chain agent", "链上智能体"),
    "GeneralAnalysisAgent": ("Writing agent", "撰写智能体"),
    "BULLISH": ("bullish", "看涨"),
    "BEARISH": ("bearish", "看跌"),
    "NEUTRAL": ("neutral", "中性"),
    "price": ("price", "价格"),
    "price_high_24h": ("24 h high", "24 小时最高价"),
    "price_low_24h": ("24 h low", "24 小时最低价"),
    "volume_24h": ("24 h volume", "24 小时成交量"),
    "volume_24h_usd": ("24 h volume in USD", "24 小时成交额"),
    "market_cap": ("market value", "市值"),
    "macro": ("economy", "宏观经济"),
    "candles": ("price bars", "K 线"),
    "onchain": ("on-chain", "链上"),
    "fed_funds_rate": ("Fed funds rate", "联邦基金利率"),
    "m2_growth": ("M2 growth", "M2 增速"),
    "dxy": ("broad dollar index", "广义美元指数"),
    "treasury_yield": ("10-year Treasury yield", "10 年期美债收益率"),
    "fear_greed": ("fear and greed", "恐惧与贪婪"),
    "exchange_inflow": ("exchange inflow", "交易所流入"),
    "exchange_outflow": ("exchange outflow", "交易所流出"),
    "exchange_netflow": ("exchange net flow", "交易所净流入"),
    "exchange_netflow_7d": ("exchange net flow of 7 days", "交易所 7 日净流入"),
    "whale_transfers": ("whale transfers", "巨鲸转账"),
    "whale_transfer_largest": ("largest whale transfer", "最大一笔巨鲸转账"),
    "active_addresses": ("active addresses", "活跃地址"),
    "network_activity": ("transactions a day", "每日交易笔数"),
    "mvrv": ("MVRV", "MVRV"),
    "transfer_volume_usd": ("volume on the chain", "链上转账额"),
    "hash_rate": ("hash rate", "算力"),
    "stablecoin_supply": ("stablecoins on the chain", "链上稳定币供应"),
    "stablecoin_supply_total": ("stablecoins in all", "稳定币总供应"),
    "chain_tvl": ("value locked", "总锁仓量"),
    "output_total_usd": ("outputs in USD", "链上输出总额"),
    "close": ("last close", "最近收盘价"),
    "ema_20": ("EMA (20)", "EMA (20)"),
    "ema_50": ("EMA (50)", "EMA (50)"),
    "sma_50": ("SMA (50)", "SMA (50)"),
    "sma_200": ("SMA (200)", "SMA (200)"),
    "rsi_14": ("RSI (14)", "RSI (14)"),
    "macd": ("MACD", "MACD"),
    "macd_signal": ("MACD signal line", "MACD 信号线"),
    "macd_histogram": ("MACD histogram", "MACD 柱"),
    "bollinger_upper": ("upper Bollinger band", "布林带上轨"),
    "bollinger_middle": ("middle Bollinger band", "布林带中轨"),
    "bollinger_lower": ("lower Bollinger band", "布林带下轨"),
    "volume": ("volume", "成交量"),
    "volume_average_20": ("average volume of 20 bars", "20 根 K 线均量"),
    "volume_ratio": ("volume to its average", "量比"),
    "support": ("support", "支撑位"),
    "resistance": ("resistance", "阻力位"),
}
SIGNAL_WORDS: dict[str, tuple[str, str]] = {
    "confirmed": ("confirmed", "已证实"),
    "likely": ("likely", "很可能"),
    "unconfirmed": ("unconfirmed", "未证实"),
    "stale": ("old news", "旧闻"),
    "disputed": ("disputed", "有争议"),
    "refuted": ("refuted", "不实"),
    "unchecked": ("unchecked", "未核查"),
    "": ("no verdict", "无结论"),
    "preliminary": ("preliminary", "初判"),
    "superseded": ("superseded", "被取代"),
    "retracted": ("withdrawn", "已撤回"),
    "buy": ("buy", "买入"),
    "sell": ("sell", "卖出"),
    "observe": ("observe", "观望"),
    "supports": ("supports it", "支持"),
    "denies": ("denies it", "否认"),
    "hedges": ("hedges", "含糊"),
    "earlier": ("is about an earlier event", "说的是更早的事件"),
    "official": ("official", "官方"),
    "pages": ("Pages read, without a quote: ", "读过的网页（无引文）："),
    "confidence": ("confidence", "置信度"),
    "offline": ("judged by offline rules", "由离线规则判断"),
    "simulated": ("simulated", "模拟"),
}
"""Words for the values of a signal's fields."""
_CHANGE = re.compile(r"(.+)_change_(\d+)([hd])")


def display_name(name: str, *, zh: bool) -> str:
    """Return the display name: ``rsi_14`` → RSI (14), ``dxy_change_30d`` → broad dollar index, 30 d change."""
    if (change := _CHANGE.fullmatch(name)) is not None:
        of, span, unit = change.groups()
        if zh:
            return f"{display_name(of, zh=True)} {span} {'小时' if unit == 'h' else '日'}变化"
        return f"{display_name(of, zh=False)}, {span} {unit} change"
    words = NAMES.get(CALLED.get(name, name))
    return words[zh] if words else name.replace("_", " ")


def field_word(name: str, *, zh: bool) -> str:
    """Return the word for the value of a signal's field: a verdict, a stage, an action, a stance."""
    both = SIGNAL_WORDS.get(name)
    return both[zh] if both else name.replace("_", " ")


def signal_facts(signal: FoundSignal, *, zh: bool) -> str:
    """Return a signal in short: asset and action, confidence, and whether it was retracted or is not live."""
    stage = [field_word(signal.stage, zh=zh)] if signal.stage in {"preliminary", "superseded", "retracted"} else []
    made = [field_word(signal.provider_mode, zh=zh)] if signal.provider_mode in {"offline", "simulated"} else []
    asset = [signal.asset] if signal.asset not in ("", NO_ASSET) else []
    order = " ".join((*asset, field_word(signal.action, zh=zh)))
    return " · ".join((order, f"{field_word('confidence', zh=zh)} {signal.confidence:.2f}", *stage, *made))
