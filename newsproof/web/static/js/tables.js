// Tables of figures: numbers to the right, words apart in their direction, and reachable by keyboard where they scroll.

import { h, words } from "./dom.js";

/** `columns`: name, field (or index), and how a value (of a row) is written; numbers are found by looking. */
export function dataTable(columns, rows, label, { tall = false } = {}) {
  const right = columns.map(({ field }) => rows.length > 0 && rows.every((row) => row[field] === null || typeof row[field] === "number"));
  return h("div", { class: `scroll${tall ? " tall" : ""}`, tabindex: 0, role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map(({ name }, at) => h("th", { scope: "col", class: right[at] ? "n" : "" }, words(name))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(({ field, write }, at) => h("td", { class: right[at] ? "n" : "" }, words(shown(row[field], write, row)))))))));
}

/** A table of rows that are made already. On a phone each becomes a block, in which every value follows its column's name. `heads`: name, and whether it holds figures. */
export function stackedTable(label, heads, rows) {
  for (const row of rows) {
    row.setAttribute("role", "row"); // named, for what is laid out as blocks may lose its roles
    [...row.cells].forEach((cell, at) => {
      cell.setAttribute("role", cell.tagName === "TD" ? "cell" : "rowheader");
      cell.dataset.label = heads[at][0];
    });
  }
  return h("div", { class: "scroll stacked", tabindex: 0, role: "region", "aria-label": label }, h("table", { role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map(([name, right]) => h("th", { scope: "col", role: "columnheader", class: right ? "n" : "" }, name)))),
    h("tbody", { role: "rowgroup" }, rows)));
}
/** `heads`: the name of each column, and whether it is one of numbers; `rows`: elements. */
export const plainTable = (label, heads, rows) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", {},
  h("thead", {}, h("tr", {}, heads.map(([name, right]) => h("th", { scope: "col", class: right ? "n" : "" }, name)))), h("tbody", {}, rows)));

function shown(value, write, row) {
  if (write) return write(value, row);
  if (value === null || value === undefined) return "–";
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(8)));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
