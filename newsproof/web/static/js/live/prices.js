// Prices of the signals in sight. They come from imports, which are made by hand: asked for once, and again after a while.

import { address, getJson } from "../api.js";

const SETTLED_MS = 300;
const OLD_MS = 5 * 60_000;
const AT_ONCE = 100;

export class Prices {
  /** `came(ids)`: those of these cases are known now. */
  constructor(signal, came) {
    this.signal = signal;
    this.came = came;
    this.known = new Map();
    this.wanted = [];
  }

  of(caseId) {
    return this.known.get(caseId)?.price;
  }

  want(caseIds) {
    const now = Date.now();
    this.wanted = caseIds.filter((id) => now - (this.known.get(id)?.at ?? 0) > OLD_MS).slice(0, AT_ONCE);
    if (this.wanted.length > 0) this.waiting ??= setTimeout(() => this.ask(), SETTLED_MS);
  }

  async ask() {
    const ids = this.wanted;
    try {
      const url = address("prices");
      for (const id of ids) url.searchParams.append("case", id);
      this.keep(ids, (await getJson(url, {}, this.signal)).prices);
    } catch {
      this.keep(ids, {}); // Beside the signals: a dash says that there is none, and they are asked for again later.
    }
    this.waiting = null;
  }

  keep(ids, found) {
    if (this.signal.aborted) return;
    const at = Date.now();
    const changed = ids.filter((id) => (found[id]?.last_at ?? null) !== (this.known.get(id)?.price?.last_at ?? null));
    for (const id of ids) this.known.set(id, { at, price: found[id] ?? null });
    if (changed.length > 0) this.came(changed);
  }
}
