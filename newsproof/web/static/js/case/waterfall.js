// How the preliminary confidence became the final one, rule by rule, and what later revisions made of it: a table whose
// bars are under each other.

import { waterfallBar } from "../drawings.js";
import { h, words } from "../dom.js";
import { confidence, known, signed } from "../format.js";
import { saidIn, t, term } from "../i18n.js";
import { WITHDRAWN } from "../vocabulary.js";

const HEADS = [["waterfall.rule"], ["waterfall.change", true], ["confidence", true], ["waterfall.scale"], ["waterfall.why"]];

/** `steps` of the case itself; `revisions` that withdrew its signal afterwards are rows of their own. */
export function waterfall(decided, revisions = []) {
  const steps = [...decided, ...later(decided, revisions)];
  let before = 0;
  const rows = steps.map((step, at) => {
    const whole = !known(step.amount);
    const from = whole ? 0 : before;
    before = step.confidence;
    const tone = whole ? "" : step.amount > 0 ? "good-ink" : step.amount < 0 ? "bad-ink" : "";
    return h("tr", { role: "row", class: whole ? "total" : "", data: { step: at } },
      h("th", { scope: "row", role: "rowheader" }, words(term(step.rule))),
      h("td", { role: "cell", class: `n ${tone}` }, whole ? "" : signed(step.amount)),
      h("td", { role: "cell", class: "n" }, confidence(step.confidence)),
      h("td", { role: "cell", class: "bar-cell" }, waterfallBar(from, step.confidence, whole ? "total" : "change")),
      h("td", { role: "cell", class: "text" }, step.reason ? words(saidIn(step, "reason")) : ""));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("case.waterfall") },
    // With their roles said: on narrow screens the rows are laid out as grids, which takes the roles of a table away.
    h("table", { class: "waterfall-table", role: "table" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, HEADS.map(([key, right]) => h("th", { scope: "col", role: "columnheader", class: right ? "n" : "" }, t(key))))),
      h("tbody", { role: "rowgroup" }, rows)));
}

function later(decided, revisions) {
  let before = decided.at(-1)?.confidence;
  return revisions.filter((one) => one.revision > 1 && WITHDRAWN.has(one.stage)).map((one) => {
    const step = { rule: t("waterfall.revision", { number: one.revision, stage: term(one.stage) }), amount: known(before) ? one.confidence - before : null, confidence: one.confidence, reason: saidIn(one, "notes") };
    before = one.confidence;
    return step;
  });
}
