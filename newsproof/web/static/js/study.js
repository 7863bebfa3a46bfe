// The event study: how prices moved around the signals, as a chart that the server draws, with its figures as a table.

import { address, getJson } from "./api.js";
import { h, withCode } from "./dom.js";
import { number, signed } from "./format.js";
import { t, term } from "./i18n.js";
import { picture } from "./picture.js";
import { empty, fill } from "./states.js";
import { dataTable } from "./tables.js";

const DIMENSIONS = ["verdict", "event_type", "source"];
const RETURNS = ["abnormal", "raw"];
/** Offsets of the table, in minutes. */
const SHOWN = [-60, -15, 5, 60, 240, 1440];

const choice = (name, values, changed) => h("label", { class: "field" }, h("span", {}, t(`study.${name}`)),
  h("select", { class: "input", name, on: { change: (event) => changed(event.target.value) } },
    values.map((one) => h("option", { value: one }, t(`study.${name}.${one}`)))));

/** A link that saves a table as CSV. */
export const csvLink = (path, asked) => {
  const { pathname, search } = address(path, { ...asked, format: "csv" });
  return h("p", { class: "pad-top" }, h("a", { class: "button tiny quiet", href: pathname + search, download: "" }, t("csv")));
};

/** `quiet`: where there is none, nothing is said of it, for it was said above why. */
export function studySection(period, signal, { quiet = false } = {}) {
  const body = h("div", {});
  const asked = { by: "verdict", returns: null };
  const ask = (name) => (chosen) => {
    asked[name] = chosen;
    show();
  };
  // They stay while the study is read, and keep the focus.
  const choices = h("div", { class: "filters", hidden: true }, choice("by", DIMENSIONS, ask("by")), choice("returns", RETURNS, ask("returns")));
  const show = () => fill(body, async () => drawn(await getJson("report/study", { ...period, by: asked.by }, signal)), signal);
  const drawn = ({ study: found, why }) => {
    choices.hidden = !found;
    section.hidden = !found && quiet;
    if (!found) return empty(t("study.empty"), why);
    const any = { raw: found.study.measured > 0, abnormal: found.study.groups.some((group) => based(group).abnormal_events > 0) };
    // Without a choice the abnormal returns, where an event has one.
    const kind = asked.returns ?? (any.abnormal ? "abnormal" : "raw");
    choices.querySelector("[name=returns]").value = kind;
    return h("div", {}, notes(found),
      any[kind] ? picture(t("study.title"), t("study.alt"), "study", { ...period, by: asked.by, returns: kind }, signal) : h("p", { class: "hint" }, t("study.none")),
      any[kind] && h("details", { class: "figures" }, h("summary", {}, t("study.table")), figures(found.study.groups, kind), csvLink("report/study", { ...period, by: asked.by })));
  };
  const section = h("section", { class: "section", "aria-labelledby": "part-study" },
    h("h2", { id: "part-study" }, t("study.title")), h("p", { class: "hint" }, t("study.lead")), choices, body);
  show();
  return section;
}

const based = (group) => group.points.find((point) => point.minutes === 0);

function notes(found) {
  const counted = (counts) => Object.entries(counts).map(([why, n]) => `${term(why)} ${number(n)}`).join(" · ");
  const { events, measured, left_out: out, raw_only: raw, smaller_groups: smaller } = found.study;
  const said = [t("study.measured", { n: events, measured: number(measured) })];
  if (Object.keys(out).length > 0) said.push(t("study.left_out", { counts: counted(out) }));
  if (Object.keys(raw).length > 0) said.push(t("study.raw_only", { counts: counted(raw) }));
  if (smaller > 0) said.push(t("study.smaller", { n: smaller }));
  return [h("p", { class: "hint" }, withCode(said.join(" "))), found.on_synthetic_prices > 0 && h("p", { class: "notice warn" }, t("study.synthetic", { n: found.on_synthetic_prices }))];
}

function figures(groups, kind) {
  const columns = [["group"], ["events"], ["days"]].map(([field]) => ({ name: t(`column.${field}`), field }));
  columns.push(...SHOWN.map((minutes) => ({ name: offset(minutes), field: minutes })));
  const share = (value) => `${signed(100 * value, 2) || "0.00"}${t("unit.percent")}`;
  const cell = (point, events) => {
    const [mean, low, high] = [point[kind], point[`${kind}_low`], point[`${kind}_high`]];
    const of = kind === "raw" ? point.events : point.abnormal_events;
    if (mean === null) return "–";
    const band = low === null ? t("study.too_few") : `${share(low)}\u00a0…\u00a0${share(high)}`;
    return `${share(mean)}${of === events ? "" : ` ${t("study.of", { n: of })}`} (${band})`;
  };
  const rows = groups.map((group) => {
    const [events, days] = kind === "raw" ? [group.events, group.days] : [based(group).abnormal_events, based(group).abnormal_blocks];
    const cells = SHOWN.map((minutes) => [minutes, cell(group.points.find((point) => point.minutes === minutes), events)]);
    return { group: group.dimension === "all" ? t("study.all") : term(group.name) || "–", events, days, ...Object.fromEntries(cells) };
  }).filter((row) => row.events > 0);
  return dataTable(columns, rows, t("study.table"));
}

/** As `offset` of the chart. */
const offset = (minutes) => (!minutes ? "0" : Math.abs(minutes) < 60 || minutes % 60 ? `${signed(minutes, 0)} ${t("unit.min")}` : `${signed(minutes / 60, 0)} ${t("unit.h")}`);
