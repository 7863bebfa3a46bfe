// Closed lists of the contract (schemas/signals.py).

export const EVENT_TYPES = ["listing", "hack", "regulation", "partnership", "depeg", "liquidation", "funding", "whale", "product", "macro", "governance", "airdrop", "celebrity", "scam_alert", "other"];
