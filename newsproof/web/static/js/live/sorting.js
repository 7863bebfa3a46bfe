// The order of the desk's list: newest first, as it comes, or by a column. It is in the address: "sort=-confidence".

import { isAsset } from "../signal_row.js";
import { ACTIONS, VERDICTS } from "../vocabulary.js";

const time = (text) => Date.parse(text ?? "") || null;
const place = (list, value) => (list.includes(value) ? list.indexOf(value) : null);
/** What a column is sorted by; null comes last, either way. */
const VALUES = {
  time: (one) => time(one.decided_at),
  news: (one) => time(one.published_at),
  asset: (one) => (isAsset(one.asset) ? one.asset : null),
  verdict: (one) => place(VERDICTS, one.verdict),
  action: (one) => place(ACTIONS, one.action),
  confidence: (one) => one.confidence,
  sources: (one) => one.supporting_sources ?? null,
  expires: (one) => time(one.valid_until),
};
const FALLING = new Set(["time", "news", "confidence", "sources"]); // The largest first, at the first click.
export const SORTABLE = Object.keys(VALUES);

/** `{name, down}`; newest first where the address asks for nothing that is known. */
export function sorting(query) {
  const asked = query.get("sort") ?? "";
  const name = asked.replace(/^-/, "");
  return Object.hasOwn(VALUES, name) ? { name, down: asked.startsWith("-") } : { name: "time", down: true };
}

/** Whether it is the order in which signals come, which needs no other. */
export const isNewestFirst = ({ name, down }) => name === "time" && down;

/** What a click on a column asks for: its own order, or that one turned around. */
export function turned(now, name) {
  const down = now.name === name ? !now.down : FALLING.has(name);
  return name === "time" && down ? null : `${down ? "-" : ""}${name}`;
}

export function comparison(now) {
  if (isNewestFirst(now)) return null;
  const value = VALUES[now.name];
  const sign = now.down ? -1 : 1;
  return (one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === b) return 0;
    if (a === null || b === null) return a === null ? 1 : -1;
    return a < b ? -sign : sign;
  };
}
