// The desk's filters. They stand in the address, so that a view can be kept as a bookmark.

import { h } from "../dom.js";
import { t, term } from "../i18n.js";
import { ACTIONS, EVENT_TYPES, STAGES, VERDICTS } from "../vocabulary.js";

const NAMES = ["asset", "source", "verdict", "action", "event_type", "stage", "min_sources", "min_confidence"];

/** What the address asks for, as the list and the stream take it. */
export const filterQuery = (query) => Object.fromEntries(NAMES.map((name) => [name, query.get(name)]));

/** Whether the filters take a signal: a revision may no longer be what was asked for. */
export function fits(query, signal) {
  const same = (name, field = name) => !query.get(name) || String(signal[field] ?? "").toLowerCase() === query.get(name).toLowerCase();
  return ["asset", "event_type", "verdict", "action", "stage"].every((name) => same(name)) && same("source", "news_source")
    && signal.confidence >= Number(query.get("min_confidence") || 0) && (signal.supporting_sources ?? 0) >= Number(query.get("min_sources") || 0);
}

/** `changed()` hears of every change, after it stands in the address. */
export function filters(query, changed) {
  const set = (name, value) => {
    if (value) query.set(name, value);
    else query.delete(name);
    const text = query.toString();
    history.replaceState(null, "", `/${text ? `?${text}` : ""}`);
    changed();
  };
  const field = (name, input) => h("label", { class: `field f-${name}` }, h("span", {}, t(`filter.${name}`)), input);
  const written = (name, most, as = (value) => value) => field(name, h("input", { class: "input", name, autocomplete: "off", spellcheck: "false", placeholder: t("any"), maxlength: most, value: query.get(name) ?? "", on: { change: (e) => set(name, as(e.target.value.trim())) } }));
  const choice = (name, all) => field(name, h("select", { class: "input", name, on: { change: (e) => set(name, e.target.value) } },
    h("option", { value: "" }, t("any")), all.map((one) => h("option", { value: one, selected: one === query.get(name) }, term(one)))));
  const least = (name, max, step) => field(name, h("input", { class: "input", name, type: "number", min: 0, max, step, placeholder: "0", value: query.get(name) ?? "", on: { change: (e) => set(name, e.target.checkValidity() && Number(e.target.value) > 0 ? e.target.value : "") } }));
  return h("form", { class: "filters desk-filters", role: "search", "aria-label": t("filters"), on: { submit: (e) => e.preventDefault() } },
    choice("verdict", VERDICTS), choice("action", ACTIONS), written("asset", 20, (value) => value.toUpperCase()), written("source", 256), least("min_sources", 1000, 1),
    choice("event_type", EVENT_TYPES), least("min_confidence", 1, 0.05), query.get("stage") && choice("stage", STAGES));
}
