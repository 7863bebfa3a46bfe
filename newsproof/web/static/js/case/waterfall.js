// How the preliminary confidence became the final one, rule by rule: a table whose bars stand under each other.

import { waterfallBar } from "../drawings.js";
import { h, words } from "../dom.js";
import { confidence, known, signed } from "../format.js";
import { t, term } from "../i18n.js";

export function waterfall(steps) {
  if (steps.length === 0) return h("p", { class: "hint" }, t("case.waterfall.none"));
  let before = 0;
  const rows = steps.map((step, at) => {
    const whole = !known(step.amount);
    const from = whole ? 0 : before;
    before = step.total;
    const tone = whole ? "" : step.amount > 0 ? "up-ink" : step.amount < 0 ? "down-ink" : "";
    return h("tr", { class: whole ? "total" : "", data: { step: at } },
      h("th", { scope: "row" }, words(term(step.label))),
      h("td", { class: `n ${tone}` }, whole ? "" : signed(step.amount)),
      h("td", { class: "n" }, confidence(step.total)),
      h("td", { class: "bar-cell" }, waterfallBar(from, step.total, whole ? "total" : "change")),
      h("td", { class: "text" }, step.reason ? words(step.reason) : ""));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("case.waterfall") },
    h("table", { class: "waterfall-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("waterfall.rule")), h("th", { scope: "col", class: "n" }, t("waterfall.change")),
        h("th", { scope: "col", class: "n" }, t("confidence")), h("th", { scope: "col" }, t("waterfall.scale")), h("th", { scope: "col" }, t("waterfall.why")))),
      h("tbody", {}, rows)));
}
