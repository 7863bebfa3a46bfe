// The pipeline in one line: news that came in and waits, cases, what is left to spend, whether the providers answer.

import { h, replace } from "../dom.js";
import { dateTime, known, number } from "../format.js";
import { t, term } from "../i18n.js";

/** `openCases`: what a click on their number does. */
export function vitals(status, openCases) {
  const count = (value) => (known(value) ? number(value) : t("unknown"));
  return h("dl", { class: "vitals" },
    figureOf("news", count(status.news_last_hour)),
    figureOf("waiting", count(status.news_waiting), status.news_waiting > 0 && "warn-ink"),
    figureOf("cases", h("button", { class: "as-link", type: "button", on: { click: openCases } }, count(status.open_cases))),
    budget(status.budget),
    providers(status.providers ?? []));
}

function figureOf(name, value, tone = "", title = t(`vital.${name}.long`)) {
  return h("div", { title }, h("dt", {}, t(`vital.${name}`)), h("dd", { class: tone || null }, value));
}

function budget(left) {
  if (!left) return figureOf("budget", t("unknown"), "", t("vital.budget.none"));
  const short = left.usd <= left.of_usd / 10 || left.calls <= left.of_calls / 10;
  return figureOf("budget", t("vital.budget.left", { usd: number(Number(left.usd), 2), calls: number(left.calls) }), short && "warn-ink",
    t("vital.budget.long", { of_usd: number(Number(left.of_usd), 2), of_calls: number(left.of_calls) }));
}

function providers(all) {
  if (all.length === 0) return figureOf("providers", t("unknown"), "", t("vital.providers.none"));
  const failing = all.filter((one) => one.failing);
  const words = failing.map((one) => t("vital.providers.fails", { provider: one.provider, why: term(one.failing) }));
  const each = all.map((one) => `${t("vital.providers.of", { provider: one.provider, kind: term(one.kind) })}${t("colon")}${one.failing ? t("vital.providers.since", { why: term(one.failing), at: dateTime(one.since) }) : t("vital.providers.answered", { at: dateTime(one.at) })}`);
  return figureOf("providers", failing.length > 0 ? words.join(t("comma")) : t("vital.providers.ok", { n: all.length }), failing.length > 0 && "bad-ink", each.join("\n"));
}

/** Redraw it if its words have changed: who hovers over it keeps the title. */
export function drawVitals(place, status, openCases) {
  const said = JSON.stringify([status.news_last_hour, status.news_waiting, status.open_cases, status.budget, status.providers]);
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  const focused = place.contains(document.activeElement);
  replace(place, vitals(status, openCases));
  if (focused) place.querySelector("button")?.focus();
}
