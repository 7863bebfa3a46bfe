// One signal as a line of the desk's table.

import { confidenceBar } from "../drawings.js";
import { h, words } from "../dom.js";
import { dateTime, figure, left, moment24, number, signed, utc } from "../format.js";
import { summaryOf, t, term } from "../i18n.js";
import { actionMark, assetName, isAsset, unusualTags, verdictMark } from "../signal_row.js";
import { WITHDRAWN } from "../vocabulary.js";
import { SORTABLE } from "./sorting.js";

export const COLUMNS = ["time", "news", "asset", "verdict", "action", "confidence", "sources", "what", "price", "since", "expires"];
const RIGHT = new Set(["sources", "price", "since", "expires"]);

/** `sort(name)`: what a click on a column's name does. */
export function headRow(sort) {
  const said = (name) => (SORTABLE.includes(name) ? h("button", { class: "as-head", type: "button", on: { click: () => sort(name) } }, t(`col.${name}`)) : t(`col.${name}`));
  return h("div", { class: "desk-row desk-head-row", role: "row", "aria-rowindex": 1 },
    COLUMNS.map((name) => h("span", { class: `c-${name}${RIGHT.has(name) ? " n" : ""}`, role: "columnheader", title: t(`col.${name}.long`), data: { name } }, said(name))));
}

/** `price`: what /prices says of its case, null where there is none, undefined while that is not known. */
export function deskRow(signal, { price, acknowledged, selected, watched, index }) {
  const gone = WITHDRAWN.has(signal.stage);
  const cells = {
    time: shortTime(signal.decided_at),
    news: shortTime(signal.published_at),
    asset: [star(signal.asset, watched), assetName(signal.asset)],
    verdict: verdictMark(signal),
    action: actionMark(signal),
    confidence: confidenceBar(signal.preliminary_confidence, signal.confidence),
    sources: number(signal.supporting_sources ?? null),
    what: [unusualTags(signal), h("span", { class: "faint" }, term(signal.event_type)), words(summaryOf(signal) || t("untitled"))],
    price: priceCell(price),
    since: sinceCell(price),
    expires: gone ? "–" : left(signal.valid_until) ?? h("span", { class: "faint" }, t("expired")),
  };
  return h("div", { class: `desk-row signal${gone ? " gone" : ""}${acknowledged ? " seen" : ""}`, role: "row", tabindex: -1, "aria-rowindex": index + 2, "aria-selected": String(selected), data: { id: signal.signal_id } },
    COLUMNS.map((name) => h("span", { class: `c-${name}${RIGHT.has(name) ? " n" : ""}`, role: "gridcell" }, cells[name])));
}

const shortTime = (at) => h("time", { datetime: at, title: `${dateTime(at)} · ${utc(at)}` }, moment24(at));

function star(asset, watched) {
  return isAsset(asset) && h("button", { class: "star", type: "button", tabindex: -1, "aria-pressed": String(watched), "aria-label": t("watch.asset", { asset }), title: t("watch.asset", { asset }) });
}

function priceCell(price) {
  if (!price) return "–";
  return h("span", { title: priceWords(price) }, figure(price.price), price.synthetic && h("span", { class: "faint" }, "*"));
}

function sinceCell(price) {
  if (!price) return "–";
  return h("span", { class: price.change > 0 ? "rise-ink" : price.change < 0 ? "fall-ink" : "", title: priceWords(price) }, (signed(100 * price.change, 1) || "0.0") + t("unit.percent"));
}

/** Where a price is from, and how old the newest one is. */
export function priceWords(price) {
  const places = { symbol: price.symbol, price: figure(price.price), at: dateTime(price.at), last: figure(price.last), last_at: dateTime(price.last_at) };
  return `${t("price.words", places)}${price.synthetic ? ` ${t("price.synthetic")}` : ""}`;
}
