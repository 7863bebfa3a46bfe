// A box for read-only SQL, asked with the rights and the limits of the analysts' user.

import { postJson } from "./api.js";
import { h, replace } from "./dom.js";
import { number } from "./format.js";
import { t } from "./i18n.js";
import { announce, empty, failed, loading } from "./states.js";
import { dataTable } from "./tables.js";

const EXAMPLES = {
  "sql.example.steps": "SELECT step, results, failures, p50_ms, p95_ms\nFROM v_latency_by_step\nWHERE run_id = 'live'\nORDER BY p95_ms DESC",
  "sql.example.spend": "SELECT day, step, sum(executed_calls) AS calls, sum(total_cost_usd) AS cost_usd\nFROM v_spend\nWHERE run_id = 'live'\nGROUP BY day, step\nORDER BY day, step",
  "sql.example.views": "SHOW TABLES",
};
let draft = EXAMPLES["sql.example.steps"];

export function sqlBox(gone) {
  const box = h("textarea", { class: "input code", id: "sql", rows: 6, spellcheck: "false", autocapitalize: "off", maxlength: 20000, value: draft });
  const run = h("button", { class: "button main", type: "submit" }, t("sql.run"));
  const result = h("div", { class: "sql-result" });
  let asked = null;

  async function ask() {
    asked?.abort();
    asked = new AbortController();
    const mine = asked;
    run.setAttribute("aria-disabled", "true"); // Not disabled: that would take the focus away.
    result.replaceChildren(loading());
    try {
      const found = await postJson("sql", { query: box.value }, {}, mine.signal);
      if (!mine.signal.aborted) result.replaceChildren(answer(found));
    } catch (error) {
      if (!mine.signal.aborted) result.replaceChildren(failed(error));
    }
    if (mine === asked) run.removeAttribute("aria-disabled");
  }

  gone.addEventListener("abort", () => asked?.abort());
  box.addEventListener("input", () => { draft = box.value; });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      ask();
    }
  });
  const examples = Object.entries(EXAMPLES).map(([key, text]) => h("button", { class: "button quiet tiny", type: "button", on: { click: () => {
    box.value = draft = text;
    box.focus();
  } } }, t(key)));
  return h("form", { class: "sql-box", on: { submit: (event) => {
    event.preventDefault();
    if (!run.getAttribute("aria-disabled")) ask();
  } } }, h("label", { for: "sql", class: "unseen" }, t("sql.title")), box,
  h("div", { class: "row" }, run, h("span", { class: "small faint" }, t("sql.keys")), h("span", { class: "row examples" }, examples)), result);
}

function answer({ columns, rows, truncated, seconds }) {
  const said = `${t("sql.rows", { n: rows.length })} · ${number(seconds, 2)} ${t("unit.s")}`;
  announce(said);
  const place = h("div", {});
  return replace(place,
    h("p", { class: "hint row" }, said, truncated && rows.length > 0 && ` · ${t("sql.truncated")}`,
      rows.length > 0 && h("button", { class: "button tiny quiet", type: "button", on: { click: () => save(csvOf([columns.map((one) => one.name), ...rows])) } }, t("csv"))),
    rows.length === 0 ? empty(t(truncated ? "sql.too_large" : "sql.none")) : dataTable(columns.map((column, at) => ({ name: column.name, field: at })), rows, t("sql.result"), { tall: true }));
}

/** The shown result as CSV, as the server writes its tables: a text that a spreadsheet would take for a formula begins with an apostrophe. */
function csvOf(lines) {
  const cell = (value) => {
    const text = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
    const shown = typeof value !== "number" && /^ *[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
  };
  return lines.map((line) => `${line.map(cell).join(",")}\n`).join("");
}

function save(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "newsproof-sql.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it after this turn
}
