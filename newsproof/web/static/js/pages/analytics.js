// Analytics: the charts of the standard report, each with the table that it was drawn from, and a box for SQL.

import { getJson } from "../api.js";
import { h } from "../dom.js";
import { cost, duration, fixed, known, number, signed } from "../format.js";
import { t, term } from "../i18n.js";
import { picture } from "../picture.js";
import { sqlBox } from "../sql_box.js";
import { empty, fill } from "../states.js";
import { studySection } from "../study.js";
import { dataTable } from "../tables.js";

const DAYS = ["7", "30", "90"];
const plain = (value) => (known(value) ? number(value, Number.isInteger(value) ? 0 : 3) : String(value ?? "–"));
const share = (value) => fixed(value, 3);
const money = (value, row) => cost(value, row.unpriced, "");
/** Chart, then its tables: rows of the report, their columns, how a value is written. */
const PARTS = [
  { name: "cost", tables: [["spend", [["day"], ["step", term], ["calls", plain], ["executed", plain], ["cost_usd", money], ["unpriced", plain]]]] },
  { name: "latency", tables: [
    ["latency", [["step", term], ["results", plain], ["failures", plain], ["p50_ms", duration], ["p95_ms", duration], ["p99_ms", duration]]],
    ["to_signal", [["verdict", (one) => (one ? term(one) : t("verdict.none"))], ["signals", plain], ["opened_p50_ms", duration], ["opened_p95_ms", duration], ["opened_p99_ms", duration]]]] },
  { name: "confidence", tables: [
    ["deltas", [["delta_from", (v) => signed(v, 1)], ["signals", plain]]],
    ["deltas_by_type", [["event_type", term], ["signals", plain], ["mean_preliminary", share], ["mean_final", share], ["mean_delta", (v) => signed(v, 3)], ["raised", plain], ["lowered", plain]]]] },
  { name: "reliability", tables: [
    ["calibration", [["horizon_s", (v) => duration(v * 1000)], ["cases", plain], ["mean_confidence", share], ["hit_rate", share], ["brier", share], ["ece", share]]],
    ["reliability", [["horizon_s", (v) => duration(v * 1000)], ["confidence_from", share], ["cases", plain], ["stories", plain], ["mean_confidence", share], ["hit_rate", share]]],
    ["coverage", [["horizon_s", (v) => duration(v * 1000)], ["standing", term], ["signals", plain], ["on_synthetic_prices", plain]]]] },
];

export function mount(main, { query, signal, setTitle }) {
  setTitle(t("nav.analytics"));
  const body = h("div", {});
  const days = DAYS.includes(query.get("days")) ? query.get("days") : "30";
  const choice = h("select", { class: "input", name: "days", on: { change: (event) => {
    history.replaceState(null, "", `/analytics?days=${event.target.value}`);
    load(event.target.value);
  } } }, DAYS.map((one) => h("option", { value: one, selected: one === days }, t("days", { n: Number(one) }))));
  main.append(
    h("div", { class: "page-head" }, h("h1", {}, t("analytics.title")), h("p", {}, t("analytics.lead")),
      h("label", { class: "field inline" }, h("span", { class: "unseen" }, t("analytics.span")), choice)),
    body, h("section", { class: "section", "aria-labelledby": "sql-head" }, h("h2", { id: "sql-head" }, t("sql.title")), h("p", { class: "hint" }, t("sql.lead")), sqlBox(signal)));
  const load = (chosen) => fill(body, async () => report(await getJson("report", { days: chosen }, signal), chosen, signal), signal);
  load(days);
}

function report(found, days, signal) {
  const answers = found.answers ?? found;
  const nothing = !answers.spend?.length && !answers.deltas?.length;
  if (nothing) return empty(t("analytics.empty"), t("live.empty.do"));
  return h("div", {}, keyFigures(answers), PARTS.map((part) => h("section", { class: "section", "aria-labelledby": `part-${part.name}` },
    h("h2", { id: `part-${part.name}` }, t(`report.${part.name}`)),
    part.name === "reliability" && notes(found, answers),
    picture(t(`report.${part.name}`), t(`report.${part.name}.alt`), part.name, { days }, signal),
    part.tables.map(([name, columns]) => answers[name]?.length > 0 && h("details", { class: "figures" },
      h("summary", {}, t(`report.table.${name}`)),
      dataTable(columns.map(([field, write]) => ({ name: t(`column.${field}`), write, field })), answers[name], t(`report.table.${name}`))))),
  ), studySection(signal), trust(answers.trust ?? []));
}

function keyFigures(answers) {
  const spend = answers.spend ?? [];
  // A row sums its calls of known price: null where none of them has one.
  const priced = spend.filter((row) => row.cost_usd !== null && row.cost_usd !== undefined);
  const total = priced.length > 0 || spend.length === 0 ? priced.reduce((sum, row) => sum + Number(row.cost_usd), 0) : null;
  const unpriced = spend.reduce((sum, row) => sum + (row.unpriced || 0), 0);
  const all = (answers.deltas ?? []).reduce((sum, row) => sum + row.signals, 0);
  const per = answers.cost_per_signal?.[0];
  const modes = (answers.modes ?? []).map((row) => `${row.provider_mode ? term(row.provider_mode) : "?"} ${number(row.calls)}`).join(" · ");
  const facts = [[t("figure.signals"), number(all)], [t("figure.cost"), cost(total, unpriced)],
    [t("figure.each"), cost(per?.cost_per_signal_usd, per?.unpriced_calls)],
    [t("figure.unpriced"), number(unpriced)], [t("figure.modes"), modes || "–"]];
  return h("dl", { class: "facts key-figures" }, facts.map(([name, value]) => h("div", { class: "card" }, h("dt", {}, name), h("dd", {}, value))));
}

function notes(found, answers) {
  const said = [];
  if (!answers.calibration?.length) said.push(t("reliability.none"));
  if ((answers.coverage ?? []).some((row) => row.on_synthetic_prices > 0)) said.push(t("reliability.synthetic"));
  return said.map((text) => h("p", { class: "notice warn" }, text));
}

function trust(rows) {
  if (rows.length === 0) return null;
  const violated = rows.filter((row) => row.violations > 0);
  const broken = violated.length;
  return h("section", { class: "section" }, h("h2", {}, t("report.trust")),
    h("p", { class: `notice ${broken ? "error" : ""}` }, broken ? t("trust.broken", { n: broken, checks: violated.map((row) => term(row.check)).join(t("comma")) }) : t("trust.whole", { n: rows.length })),
    h("details", { class: "figures" }, h("summary", {}, t("report.table.trust")),
      dataTable([{ name: t("column.check"), field: "check", write: term }, { name: t("column.violations"), field: "violations", write: plain }], rows, t("report.table.trust"))));
}
