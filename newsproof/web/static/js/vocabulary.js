// Closed lists of the contract (schemas/signals.py).

export const EVENT_TYPES = ["listing", "hack", "regulation", "partnership", "depeg", "liquidation", "funding", "whale", "product", "macro", "governance", "airdrop", "celebrity", "scam_alert", "other"];
export const ACTIONS = ["buy", "sell", "observe"];
export const STAGES = ["preliminary", "final", "superseded", "retracted"];
export const VERDICTS = ["confirmed", "likely", "unconfirmed", "stale", "disputed", "refuted", "unchecked"];
/** Stages that take a judgement back. */
export const WITHDRAWN = new Set(["retracted", "superseded"]);
