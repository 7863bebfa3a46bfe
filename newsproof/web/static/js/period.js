// The period of a page of figures: the last days, all of them, or from one day to another. It is in the address.

import { freshId, h } from "./dom.js";
import { t } from "./i18n.js";

const DAYS = ["7", "30", "90"];
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** What the address asks for, as the API takes it: { days }, { from, to }, or nothing for all. */
export function periodOf(query) {
  const [from, to] = ["from", "to"].map((name) => (DATE.test(query.get(name) ?? "") ? query.get(name) : ""));
  if (from || to) return { ...(from && { from }), ...(to && { to }) };
  if (query.get("days") === "all") return {};
  return { days: DAYS.includes(query.get("days")) ? query.get("days") : "30" };
}

/** Buttons and two dates; `changed` is called with the period that was chosen. */
export function periodChoice(query, changed) {
  const asked = periodOf(query);
  const dates = Object.fromEntries(["from", "to"].map((name) => [name, h("input", { class: "input", type: "date", name, value: asked[name] ?? "" })]));
  const said = h("p", { class: "hint", id: freshId("period"), role: "alert" });
  const buttons = [...DAYS, "all"].map((one) => h("button", { class: "button quiet", type: "button", data: { days: one }, on: { click: () => choose(one === "all" ? {} : { days: one }) } },
    one === "all" ? t("period.all") : t("days", { n: Number(one) })));
  const mark = (period) => {
    const days = period.from || period.to ? null : period.days ?? "all";
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.days === days));
  };
  const choose = (period) => {
    for (const [name, input] of Object.entries(dates)) input.value = period[name] ?? "";
    said.textContent = "";
    mark(period);
    history.replaceState(null, "", `${location.pathname}?${new URLSearchParams(Object.keys(period).length > 0 ? period : { days: "all" })}`);
    changed(period);
  };
  const between = (event) => {
    event.preventDefault();
    const [from, to] = [dates.from.value, dates.to.value];
    if (from && to && from > to) said.textContent = t("period.reversed");
    else if (from || to) choose({ ...(from && { from }), ...(to && { to }) });
  };
  mark(asked);
  return h("div", { class: "period" },
    h("div", { class: "row", role: "group", "aria-label": t("period") }, buttons),
    h("form", { class: "row", on: { submit: between } },
      Object.entries(dates).map(([name, input]) => h("label", { class: "row" }, h("span", { class: "soft small" }, t(`period.${name}`)), input)),
      h("button", { class: "button quiet", type: "submit" }, t("period.show"))),
    said);
}
