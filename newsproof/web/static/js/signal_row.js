// One signal as a row of a list: what, why to doubt it, and how its confidence moved.

import { confidenceMove } from "./drawings.js";
import { h, httpUrl, words } from "./dom.js";
import { t, term } from "./i18n.js";
import { agoTime } from "./times.js";

const TONE = { buy: "up", sell: "down", observe: "" };
/** The gravest first: what has little room for flags shows these before others. */
const GRAVE = ["retracted", "refuted", "superseded", "spoofed_source", "injection_suspected", "denied_or_conflict", "scam"];
const DOUBTFUL = new Set(["preliminary_only", "preliminary", "degraded"]);

/** The ticker; where none was found that is said, in words. */
export function assetName(asset) {
  const found = asset && asset !== "UNKNOWN";
  return h("strong", { class: `asset${found ? "" : " none"}` }, found ? words(asset) : t("asset.none"));
}

export function actionTag(action) {
  return h("span", { class: `tag ${TONE[action] ?? ""}` }, term(action));
}

export function statusTag(status) {
  const tone = status === "verified" ? "accent" : status === "retracted" || status === "superseded" ? "down" : DOUBTFUL.has(status) ? "warn" : "";
  return h("span", { class: `tag ${tone}` }, term(status));
}

/** A flag may carry its reason ("degraded:timeout"). */
const flagName = (flag) => String(flag).split(":").map(term).join(t("colon"));

export function flagTags(flags, most = Infinity) {
  if (!flags?.length) return null;
  const rank = (flag) => (GRAVE.includes(flag) ? GRAVE.indexOf(flag) : GRAVE.length);
  const ordered = [...flags].sort((one, other) => rank(one) - rank(other));
  const shown = ordered.slice(0, most).map((flag) => h("li", { class: `tag ${GRAVE.includes(flag) ? "down" : "warn"}` }, flagName(flag)));
  const rest = ordered.slice(most).map(flagName).join(t("comma"));
  return h("ul", { class: "tags", "aria-label": t("flags") }, shown,
    rest && h("li", { class: "tag", title: rest }, h("span", { "aria-hidden": "true" }, `+${ordered.length - shown.length}`), h("span", { class: "unseen" }, rest)));
}

/** The hosts that speak for or against it, as far as a row has room. */
export function sourcesLine(signal) {
  const hosts = [...new Set((signal.evidence ?? []).map((one) => httpUrl(one.url)?.host ?? "").filter(Boolean))];
  const shown = hosts.slice(0, 3).join(" · ") + (hosts.length > 3 ? ` +${hosts.length - 3}` : "");
  const count = t("sources.independent", { n: signal.independent_sources ?? 0 });
  return h("p", { class: "sources small faint" }, count, shown && t("colon"), shown && words(shown));
}

export function signalRow(signal) {
  const at = signal.decided_at; // Not published_at: that is the time of the news, and the list is one of judgements.
  const gone = signal.status === "retracted" || signal.status === "superseded";
  return h("li", { class: `signal${gone ? " gone" : ""}`, data: { id: signal.signal_id } },
    h("div", { class: "signal-what" },
      assetName(signal.asset), actionTag(signal.action),
      agoTime(at)),
    h("div", { class: "signal-why" },
      h("a", { class: "signal-link", href: `/case/${encodeURIComponent(signal.case_id)}` }, words(signal.summary || t("untitled"))),
      h("div", { class: "tags meta" }, statusTag(signal.status), h("span", { class: "tag" }, term(signal.event_type)),
        signal.revision > 1 && h("span", { class: "tag" }, t("revision", { number: signal.revision })), flagTags(signal.risk_flags, 5)),
      sourcesLine(signal)),
    confidenceMove(signal.preliminary_confidence, signal.confidence));
}
