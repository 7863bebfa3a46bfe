// The desk's filters. They are in the address, so that a view can be kept as a bookmark.

import { h } from "../dom.js";
import { t, term } from "../i18n.js";
import { ACTIONS, EVENT_TYPES, STAGES, VERDICTS } from "../vocabulary.js";
import { SORTABLE } from "./sorting.js";

const NAMES = ["q", "asset", "source", "verdict", "action", "event_type", "stage", "min_sources", "min_confidence"];

/** What the address asks for, as the list and the stream take it; the watchlist as its assets. */
export const filterQuery = (query, watched) => ({ ...Object.fromEntries(NAMES.map((name) => [name, query.get(name)])), ...(query.has("watch") && { asset: [...watched].join(",") }) });

/** Whether the filters take a signal, by the rule of the server: a revision may no longer be what was asked for. */
export function fits(query, signal, watched) {
  const same = (name, field = name) => !query.get(name) || String(signal[field] ?? "").toLowerCase() === query.get(name).toLowerCase();
  const listed = query.get("asset")?.toLowerCase().split(",").map((one) => one.trim());
  const isAsked = query.has("watch") ? watched.has(signal.asset) : !listed || listed.includes(signal.asset.toLowerCase());
  return isAsked && says(signal, query.get("q"))
    && ["event_type", "verdict", "action", "stage"].every((name) => same(name)) && same("source", "news_source")
    && signal.confidence >= Number(query.get("min_confidence") || 0) && (signal.supporting_sources ?? 0) >= Number(query.get("min_sources") || 0);
}

function says(signal, asked) {
  if (!asked) return true;
  const all = [signal.asset, signal.asset_name, signal.news_source, signal.case_id, signal.summary, signal.summary_en, signal.summary_zh].join("\n").toLowerCase();
  return asked.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** The form, and the button of the watchlist, which has its place elsewhere. `changed()` is called at every change of a filter, `sorted(column)` of the order chosen, after it stands in the address. */
export function filters(query, changed, sorted) {
  const set = (name, value) => {
    if (name === "watch") query.delete("asset");
    if (name === "asset") query.delete("watch");
    put(query, name, value);
    form.elements.asset.value = query.get("asset") ?? "";
    watch.setAttribute("aria-pressed", String(query.has("watch")));
    changed();
  };
  const field = (name, input) => h("label", { class: `field f-${name}` }, h("span", {}, t(`filter.${name}`)), input);
  const written = (name, most, as = (value) => value, more = { placeholder: t("any") }) => field(name, h("input", { class: "input", name, autocomplete: "off", spellcheck: "false", maxlength: most, value: query.get(name) ?? "", on: { change: (e) => set(name, as(e.target.value.trim())) }, ...more }));
  const choice = (name, all) => field(name, h("select", { class: "input", name, on: { change: (e) => set(name, e.target.value) } },
    h("option", { value: "" }, t("any")), all.map((one) => h("option", { value: one, selected: one === query.get(name) }, term(one)))));
  const least = (name, max, step) => field(name, h("input", { class: "input", name, type: "number", min: 0, max, step, placeholder: "0", value: query.get(name) ?? "", on: { change: (e) => set(name, e.target.checkValidity() && Number(e.target.value) > 0 ? e.target.value : "") } }));
  const order = field("sort", h("select", { class: "input", name: "sort", on: { change: (e) => sorted(e.target.value) } }, SORTABLE.map((name) => h("option", { value: name }, t(`col.${name}`)))));
  const watch = h("button", { class: "button quiet tiny", type: "button", "aria-pressed": String(query.has("watch")), title: t("watch.long"), on: { click: () => set("watch", query.has("watch") ? "" : "1") } }, "★ ", t("watch"));
  const form = h("form", { class: "filters desk-filters", role: "search", "aria-label": t("filters"), on: { submit: (e) => e.preventDefault() } },
    written("q", 200, (value) => value, { type: "search", placeholder: t("filter.q.hint"), "aria-keyshortcuts": "/" }),
    choice("verdict", VERDICTS), choice("action", ACTIONS), written("asset", 400, (value) => value.toUpperCase()), written("source", 256), least("min_sources", 1000, 1),
    choice("event_type", EVENT_TYPES), least("min_confidence", 1, 0.05), query.get("stage") && choice("stage", STAGES), order);
  return { form, watch };
}

/** Put a value, or none, into the address. */
export function put(query, name, value) {
  if (value) query.set(name, value);
  else query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", `/${text ? `?${text}` : ""}`);
}
