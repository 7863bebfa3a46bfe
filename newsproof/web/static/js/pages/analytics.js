// Analytics: the charts of the standard report, each with the table that it was drawn from, and a box for SQL.

import { getJson } from "../api.js";
import { h, withCode } from "../dom.js";
import { cost, duration, fixed, known, number, signed } from "../format.js";
import { t, term } from "../i18n.js";
import { periodChoice, periodOf } from "../period.js";
import { picture } from "../picture.js";
import { uncheckedWords } from "../signal_row.js";
import { sqlBox } from "../sql_box.js";
import { empty, fill, publishLink } from "../states.js";
import { csvLink, studySection } from "../study.js";
import { dataTable } from "../tables.js";
import { VERDICTS } from "../vocabulary.js";

const plain = (value) => (known(value) ? number(value, Number.isInteger(value) ? 0 : 3) : String(value ?? "–"));
const share = (value) => fixed(value, 3);
const money = (value, row) => cost(value, row.unpriced, "");
/** As the charts name it: 5 min, 24 h, 7 d. */
const horizon = (s) => (s > 86_400 && s % 86_400 === 0 ? `${s / 86_400} ${t("unit.d")}` : s % 3600 === 0 ? `${s / 3600} ${t("unit.h")}` : `${number(s / 60, s % 60 ? 1 : 0)} ${t("unit.min")}`);
const verdict = (one) => (one ? term(one) : t("verdict.none"));
const reason = (one) => (one ? uncheckedWords(one) : t("unchecked.old"));
const end = (value) => (value === null ? t("precision.too_few") : share(value));
const group = (name, row) => (row.by === "all" ? t("study.all") : row.by === "held" ? t("precision.held") : row.by === "verdict" ? verdict(name) : name || "–");
/** The columns of calibration and of its bins, for the raw confidence and the calibrated one. */
const CALIBRATION = [["horizon_s", horizon], ["cases", plain], ["mean_confidence", share], ["hit_rate", share], ["brier", share], ["ece", share], ["ece_noise", share]];
const BINS = [["horizon_s", horizon], ["confidence_from", share], ["cases", plain], ["stories", plain], ["mean_confidence", share], ["hit_rate", share]];
/** Charts in the order of the page, each with its tables: rows of the report, their columns, how a value is written. */
const PARTS = [
  { name: "signals", per: "signals", tables: [
    ["signals", [["day"], ["signals", plain], ...VERDICTS.map((one) => [one, plain]), ["without_verdict", plain]]]] },
  { name: "precision", tables: [
    ["precision", [["horizon_s", horizon], ["group", group], ["acted", plain], ["counted", plain], ["hits", plain], ["precision", share], ["low", end], ["high", end], ["blocks", plain]]],
    ["coverage", [["horizon_s", horizon], ["standing", term], ["signals", plain], ["on_synthetic_prices", plain]]]] },
  { name: "confidence", tables: [
    ["deltas", [["delta_from", (v) => signed(v, 1)], ["signals", plain]]],
    ["deltas_by_type", [["event_type", term], ["signals", plain], ["mean_preliminary", share], ["mean_final", share], ["mean_delta", (v) => signed(v, 3)], ["raised", plain], ["lowered", plain]]],
    ["unchecked", [["unchecked_reason", reason], ["signals", plain]]]] },
  { name: "reliability", tables: [
    ["calibration", CALIBRATION],
    ["reliability", BINS], ["calibrated", CALIBRATION], ["calibrated_bins", BINS]] },
  { name: "cost", per: "spend", tables: [["spend", [["day"], ["step", term], ["calls", plain], ["executed", plain], ["cost_usd", money], ["unpriced", plain]]]] },
  { name: "latency", tables: [
    ["latency", [["step", term], ["results", plain], ["failures", plain], ["p50_ms", duration], ["p95_ms", duration], ["p99_ms", duration]]],
    ["to_signal", [["verdict", verdict], ["signals", plain], ["opened_p50_ms", duration], ["opened_p95_ms", duration], ["opened_p99_ms", duration]]]] },
];

export function mount(main, { query, signal, setTitle }) {
  setTitle(t("nav.analytics"));
  const body = h("div", {});
  let asked = null;
  const load = (period) => {
    asked?.abort();
    asked = new AbortController();
    const until = AbortSignal.any([signal, asked.signal]);
    fill(body, async () => report(await getJson("report", period, until), period, until), until);
  };
  main.append(
    h("div", { class: "page-head" }, h("h1", {}, t("analytics.title")), h("p", {}, t("analytics.lead"))),
    periodChoice(query, load), body,
    h("section", { class: "section", "aria-labelledby": "sql-head" }, h("h2", { id: "sql-head" }, t("sql.title")), h("p", { class: "hint" }, t("sql.lead")), sqlBox(signal)));
  load(periodOf(query));
}

function report(found, period, signal) {
  const { answers } = found;
  const whole = Object.keys(period).length === 0;
  if (found.is_empty) return empty(t("analytics.empty"), whole ? null : t("period.longer"), publishLink());
  const outcomes = answers.calibration.length > 0;
  const shown = PARTS.filter(({ name }) => outcomes || name !== "reliability");
  const sections = shown.map((part) => section(part, found, period, signal));
  sections.splice(2, 0, studySection(period, signal, { quiet: !outcomes }));
  return h("div", {}, keyFigures(answers), sections, trust(signal));
}

function section({ name, per, tables }, found, period, signal) {
  const { answers } = found;
  const title = per ? t(`report.${name}.${found.per[per]}`) : t(`report.${name}`);
  const drawn = answers[tables[0][0]].length > 0;
  const more = { precision: precision, confidence: unchecked }[name]?.(found, period, signal) ?? {};
  return h("section", { class: "section", "aria-labelledby": `part-${name}` },
    h("h2", { id: `part-${name}` }, title), drawn && h("p", { class: "hint" }, t(`report.${name}.lead`)), more.above,
    drawn ? more.picture ?? picture(title, t(`report.${name}.alt`), name, period, signal) : !more.above && h("p", { class: "hint" }, t("report.nothing")),
    tables.map(([table, columns]) => answers[table].length > 0 && h("details", { class: "figures" },
      h("summary", {}, t(`report.table.${table}`)),
      dataTable(columns.map(([field, write]) => ({ name: heading(field), write, field })), answers[table], t(`report.table.${table}`)),
      csvLink(`report/tables/${table}`, period))));
}

const heading = (field) => (VERDICTS.includes(field) || field === "without_verdict" ? term(field) : t(`column.${field}`));

/** The chart of precision at the horizon that is chosen; without outcomes, what to do, once for everything that needs them. */
function precision(found, period, signal) {
  const { answers } = found;
  const above = [];
  if (answers.calibration.length === 0) above.push(h("p", { class: "notice warn" }, withCode(t("reliability.none"))));
  if (found.synthetic) above.push(h("p", { class: "notice warn" }, t("reliability.synthetic")));
  const place = h("div", {});
  const draw = (seconds) => place.replaceChildren(picture(t("report.precision"), t("report.precision.alt"), "precision", { ...period, horizon_s: seconds }, signal));
  const horizons = answers.calibration.map((row) => row.horizon_s);
  if (horizons.length > 0) {
    draw(found.horizon_s);
    above.push(h("label", { class: "field horizon" }, h("span", {}, t("column.horizon_s")),
      h("select", { class: "input", name: "horizon", on: { change: (event) => draw(event.target.value) } },
        horizons.map((one) => h("option", { value: one, selected: one === found.horizon_s }, horizon(one))))));
  }
  return { above, picture: place };
}

function unchecked({ answers }) {
  const left = answers.unchecked.reduce((sum, row) => sum + row.signals, 0);
  const reasons = answers.unchecked.map((row) => `${reason(row.unchecked_reason)} ${number(row.signals)}`).join(" · ");
  return { above: left > 0 && h("p", {}, t("unchecked.said", { n: left, reasons })) };
}

function keyFigures(answers) {
  const sum = (rows, field) => rows.reduce((all, row) => all + (row[field] ?? 0), 0);
  // A row sums its calls of known price: null where none of them has one.
  const priced = answers.spend.filter((row) => known(row.cost_usd));
  const total = priced.length > 0 || answers.spend.length === 0 ? sum(priced, "cost_usd") : null;
  const unpriced = sum(answers.spend, "unpriced");
  const [all, left] = [sum(answers.signals, "signals"), sum(answers.unchecked, "signals")];
  const per = answers.cost_per_signal[0];
  const modes = answers.modes.map((row) => `${row.provider_mode ? term(row.provider_mode) : "?"} ${number(row.calls)}`).join(" · ");
  const facts = [[t("figure.signals"), number(all)], [t("figure.verified"), number(all - left)], [t("figure.unchecked"), number(left)],
    [t("figure.cost"), cost(total, unpriced)], [t("figure.each"), cost(per?.cost_per_signal_usd, per?.unpriced_calls)],
    [t("figure.unpriced"), number(unpriced)], [t("figure.modes"), modes || "–"]];
  return h("dl", { class: "facts key-figures" }, facts.map(([name, value]) => h("div", { class: "card" }, h("dt", {}, name), h("dd", {}, value))));
}

/** The checks, which read more than all figures together: asked for last. */
function trust(signal) {
  const place = h("div", {});
  fill(place, async () => checks((await getJson("report/tables/trust", {}, signal)).rows), signal);
  return h("section", { class: "section", "aria-labelledby": "part-trust" }, h("h2", { id: "part-trust" }, t("report.trust")), place);
}

function checks(rows) {
  const violated = rows.filter((row) => row.violations > 0);
  const broken = violated.length;
  return h("div", {},
    h("p", { class: `notice ${broken ? "error" : ""}` }, broken ? t("trust.broken", { n: broken, checks: violated.map((row) => term(row.check)).join(t("comma")) }) : t("trust.whole", { n: rows.length })),
    h("details", { class: "figures" }, h("summary", {}, t("report.table.trust")),
      dataTable([{ name: t("column.check"), field: "check", write: term }, { name: t("column.violations"), field: "violations", write: plain }], rows, t("report.table.trust")),
      csvLink("report/tables/trust", {})));
}
