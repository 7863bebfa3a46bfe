// The answer of a turn: its words with citations, its evidence, and what was missing when it was written.

import { meter } from "../drawings.js";
import { h, words } from "../dom.js";
import { confidence, dateTime, known } from "../format.js";
import { t, term } from "../i18n.js";
import { markdown } from "../markdown.js";
import { citation, sourceHead } from "../preview.js";
import { doubts } from "./steps.js";

/** `further`: what may follow from it, as an element. */
export function answer(data, turnId, further) {
  const sources = data.sources ?? [];
  const byNumber = new Map(sources.map((one) => [one.number, one]));
  const go = (number) => {
    const place = document.getElementById(`${turnId}-source-${number}`);
    place?.scrollIntoView({ block: "center" });
    place?.focus();
  };
  const cite = (number) => (byNumber.has(number) ? citation(number, (n) => byNumber.get(n), go) : h("span", { class: "faint" }, `[${number}]`));
  return h("div", { class: "answer" },
    standing(data.metadata ?? {}),
    markdown(data.answer, { cite, top: 3 }),
    data.key_insights?.length > 0 && h("div", { class: "insights" }, h("h3", {}, t("answer.insights")), h("ul", { class: "plain-list" }, data.key_insights.map((one) => h("li", { dir: "auto" }, cited(one, cite))))),
    sources.length > 0 && h("div", { class: "sources-list" }, h("h3", {}, t("answer.sources")), h("ol", {}, sources.map((one) => source(one, turnId, data.answer)))),
    foot(data, further));
}

/** Words whose [n] are citations. */
const cited = (text, cite) => String(text).split(/\[(\d{1,3})\]/).map((part, at) => (at % 2 ? cite(Number(part)) : part));

/** What the answer itself says about a source is not repeated below it. */
function source(one, turnId, told) {
  return h("li", { id: `${turnId}-source-${one.number}`, tabindex: -1 }, h("span", { class: "number" }, `[${one.number}]`),
    h("div", {}, sourceHead(one), one.preview && !String(told).includes(one.title) && words(one.preview, "p", { class: "small soft" }), one.observed_at && h("p", { class: "small faint" }, t("as_of", { at: dateTime(one.observed_at) }))));
}

function standing(meta) {
  const said = [];
  if (meta.path === "partial") said.push(h("p", {}, t("answer.partial")));
  if (meta.agents_missing?.length) said.push(h("p", {}, t("answer.agents_missing"), " ", meta.agents_missing.map(term).join(t("comma"))));
  if (meta.unavailable?.length) said.push(h("p", {}, t("data.unavailable")), h("ul", {}, meta.unavailable.map((one) => words(one, "li"))));
  return [said.length > 0 && h("div", { class: "notice warn small" }, said), doubts({ unsupported_numbers: meta.unsupported_numbers ?? [] })];
}

function foot(data, further) {
  const meta = data.metadata ?? {};
  return h("p", { class: "answer-foot small faint" },
    known(data.confidence) && h("span", {}, t("confidence"), " ", meter(data.confidence), " ", confidence(data.confidence)),
    meta.agents?.length > 0 && h("span", {}, meta.agents.map(term).join(t("comma"))),
    meta.as_of && h("span", {}, t("as_of", { at: dateTime(meta.as_of) })),
    meta.provider_mode && meta.provider_mode !== "live" && h("span", { class: "tag warn" }, t(`mode.${meta.provider_mode}`)), further);
}
