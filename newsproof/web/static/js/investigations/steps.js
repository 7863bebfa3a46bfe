// One step of an investigation: why, what was done, what came of it, and with which calls.

import { h, words } from "../dom.js";
import { duration, number, usd } from "../format.js";
import { t, term } from "../i18n.js";
import { stackedTable } from "../tables.js";

export function thoughtStep(data) {
  const said = (name, text) => text && h("div", {}, h("dt", {}, t(`step.${name}`)), words(text, "dd"));
  const tokens = (data.tokens?.input ?? 0) + (data.tokens?.output ?? 0);
  const spent = [duration(data.duration_ms), tokens > 0 && t("inquiry.tokens", { n: tokens, count: number(tokens) })].filter(Boolean).join(" · ");
  return h("li", { class: `stage past thought phase-${data.phase}` }, h("details", {},
    h("summary", {}, h("span", { class: "stage-name" }, t(`phase.${data.phase}`)), " ", words(data.observation || data.action || "", "span", { class: "short small" }), h("span", { class: "spent small faint" }, spent)),
    h("dl", { class: "step-body thought-facts" }, said("thought", data.thought), said("action", data.action), said("observation", data.observation)), calls(data.tool_calls ?? [])));
}

function calls(all) {
  if (all.length === 0) return null;
  const row = (one) => h("tr", {}, h("th", { scope: "row" }, term(one.kind)), h("td", {}, words(one.model || one.provider || "–")), h("td", { class: "text" }, words(one.query || one.prompt || "–")),
    h("td", { class: "n" }, one.error ? h("span", { class: "tag bad" }, term(one.error)) : one.hits ?? "–"), h("td", { class: "n" }, duration(one.latency_ms)), h("td", { class: "n" }, usd(one.cost_usd)));
  return stackedTable(t("step.calls"), ["call", "by", "asked", "hits", "took", "usd"].map((name, at) => [t(`step.${name}`), at > 2]), all.map(row));
}
