// Beside the list: the chosen signal's evidence, and what can be done with it.

import { STANCE } from "../case/evidence.js";
import { confidenceMove } from "../drawings.js";
import { external, h, httpUrl, icon, replace, words } from "../dom.js";
import { dateTime, day } from "../format.js";
import { summaryOf, t, term } from "../i18n.js";
import { priceChart } from "../price_chart.js";
import { actionTag, assetName, flagsBesideStrip, flagTags, isAsset, sourceCounts, stageTag, verdictTag } from "../signal_row.js";
import { priceWords } from "./row.js";

/** `does`: close(), acknowledge(signal), mute(name, value), watch(asset), isSeen(signal), isWatched(asset), price(signal), and the signal `gone`. */
export function beside(place, signal, does) {
  replace(place,
    h("div", { class: "row beside-head" }, assetName(signal.asset), actionTag(signal), verdictTag(signal), stageTag(signal.stage),
      closeButton(does.close)),
    words(summaryOf(signal) || t("untitled"), "h2", { class: "beside-title" }),
    confidenceMove(signal.preliminary_confidence, signal.confidence),
    h("div", { class: "row" },
      h("a", { class: "button main tiny", href: `/case/${encodeURIComponent(signal.case_id)}` }, t("beside.case")),
      h("button", { class: "button tiny", type: "button", "aria-pressed": String(does.isSeen(signal)), "aria-keyshortcuts": "a", on: { click: () => does.acknowledge(signal) } }, t("beside.seen")),
      isAsset(signal.asset) && h("button", { class: "button tiny", type: "button", "aria-pressed": String(does.isWatched(signal.asset)), "aria-keyshortcuts": "w", on: { click: () => does.watch(signal.asset) } }, t("watch.asset", { asset: signal.asset })),
      h("button", { class: "button quiet tiny", type: "button", on: { click: () => does.mute("asset", signal.asset) } }, t("beside.mute", { what: signal.asset || t("asset.none") })),
      h("button", { class: "button quiet tiny", type: "button", on: { click: () => does.mute("source", signal.news_source) } }, t("beside.mute", { what: signal.news_source }))),
    flagTags(flagsBesideStrip(signal.risk_flags)),
    h("p", { class: "small faint" }, [
      t("beside.from", { source: signal.news_source, at: dateTime(signal.published_at) }), t("beside.decided", { at: dateTime(signal.decided_at) }), t("case.valid", { until: dateTime(signal.valid_until) }), does.price(signal) && priceWords(does.price(signal)),
    ].filter(Boolean).join(" · ")),
    isAsset(signal.asset) && priceChart(signal.case_id, signal.asset, does.gone),
    h("h3", {}, t("beside.evidence")), h("p", { class: "small faint" }, sourceCounts(signal)),
    evidence(signal));
}

export function closeButton(close) {
  return h("button", { class: "button quiet tiny close", type: "button", "aria-label": t("beside.close"), title: t("beside.close"), on: { click: close } }, icon(["M6 6l12 12", "M18 6L6 18"]));
}

function evidence({ evidence: all }) {
  if (!all?.length) return h("p", { class: "hint" }, t("case.evidence.none"));
  return h("ol", { class: "evidence" }, all.map((one) => h("li", {},
    h("span", { class: "number" }, `[${one.reference_number}]`),
    h("div", {},
      h("p", {}, external(one.url, httpUrl(one.url)?.host ?? one.url, { host: false })),
      h("ul", { class: "tags", "aria-label": t("marks") },
        h("li", { class: `tag ${STANCE[one.stance] ?? ""}` }, term(one.stance)),
        one.official && h("li", { class: "tag accent" }, t("official")),
        one.independent && h("li", { class: "tag good" }, t("independent")),
        one.published_at && h("li", { class: "tag" }, day(one.published_at))),
      one.quote && words(one.quote, "blockquote", { class: "quote small" })))));
}
