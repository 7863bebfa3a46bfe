// Small drawings of figures. Each has its figures beside it as text, so the drawings are hidden from screen readers.

import { h, svg } from "./dom.js";
import { confidence } from "./format.js";
import { t } from "./i18n.js";

const inside = (value) => Math.min(1, Math.max(0, Number(value) || 0));
export const trend = (from, to) => (to - from > 0.004 ? "is-up" : from - to > 0.004 ? "is-down" : "is-flat");

/** From the first to the final confidence, on a line from 0 to 1. */
export function confidenceMove(first, last) {
  const x = (value) => 6 + inside(value) * 188;
  const drawn = svg("svg", { viewBox: "0 0 200 30", class: `confidence ${trend(first, last)}`, "aria-hidden": "true", preserveAspectRatio: "xMinYMid meet" },
    svg("line", { class: "track", x1: 6, x2: 194, y1: 15, y2: 15 }),
    svg("line", { class: "move", x1: x(first), x2: x(last), y1: 15, y2: 15 }),
    svg("circle", { class: "first", cx: x(first), cy: 15, r: 5 }),
    svg("circle", { class: "last", cx: x(last), cy: 15, r: 7 }));
  const said = t("confidence.move", { first: confidence(first), last: confidence(last) });
  return h("div", { class: "move" }, drawn, h("span", { class: "unseen" }, said),
    h("span", { class: "move-figures", "aria-hidden": "true" }, `${confidence(first)} → `, h("strong", {}, confidence(last))));
}

/** The same in a row of a table: filled to the final confidence, with a line at the first judgement's confidence. */
export function confidenceBar(first, last) {
  return h("span", { class: "confidence-cell" },
    svg("svg", { viewBox: "0 0 50 10", class: `confidence-bar ${trend(first, last)}`, "aria-hidden": "true", preserveAspectRatio: "none" },
      svg("rect", { class: "rest", x: 0, y: 3, width: 50, height: 4 }),
      svg("rect", { class: "fill", x: 0, y: 3, width: inside(last) * 50, height: 4 }),
      svg("line", { class: "was", x1: inside(first) * 50, x2: inside(first) * 50, y1: 0, y2: 10 })),
    h("span", { class: "unseen" }, t("confidence.move", { first: confidence(first), last: confidence(last) })),
    h("span", { "aria-hidden": "true" }, h("span", { class: "confidence-first" }, `${confidence(first)} → `), h("strong", {}, confidence(last))));
}

/** One step of the waterfall: a bar from the confidence before to the confidence after. */
export function waterfallBar(from, to, kind) {
  const [low, high] = [inside(Math.min(from, to)), inside(Math.max(from, to))];
  const whole = kind === "total";
  const x = whole ? 0 : low * 200;
  const wide = Math.max((whole ? high : high - low) * 200, 2);
  return svg("svg", { viewBox: "0 0 200 16", class: `waterfall ${whole ? "is-total" : trend(from, to)}`, "aria-hidden": "true", preserveAspectRatio: "none" },
    [0, 50, 100, 150, 200].map((at) => svg("line", { class: "grid", x1: at, x2: at, y1: 0, y2: 16 })),
    svg("rect", { class: "bar", x, y: 2, width: wide, height: 12, rx: 1.5 }));
}

/** A share from 0 to 1. */
export function meter(value) {
  return svg("svg", { viewBox: "0 0 100 8", class: "meter", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("rect", { class: "rest", x: 0, y: 0, width: 100, height: 8, rx: 4 }),
    svg("rect", { class: "fill", x: 0, y: 0, width: Math.max(inside(value) * 100, 2), height: 8, rx: 4 }));
}

/** A difference with its interval around 0; `span` is the largest distance from 0 of all that are drawn together; `tone` is is-up, is-down or is-flat. */
export function interval(delta, low, high, span, tone) {
  const x = (value) => 100 + (span > 0 ? Math.min(1, Math.max(-1, value / span)) : 0) * 94;
  return svg("svg", { viewBox: "0 0 200 16", class: `interval ${tone}`, "aria-hidden": "true" },
    svg("line", { class: "zero", x1: 100, x2: 100, y1: 0, y2: 16 }),
    low !== null && high !== null && svg("line", { class: "move", x1: x(low), x2: x(high), y1: 8, y2: 8 }),
    svg("circle", { class: "last", cx: x(delta), cy: 8, r: 4 }));
}

/** Closing prices as a line; its height is from the lowest to the highest. */
export function sparkline(values) {
  if (values.length < 2) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, at) => `${((at / (values.length - 1)) * 300).toFixed(1)},${(38 - ((value - low) / (high - low || 1)) * 36).toFixed(1)}`);
  return svg("svg", { viewBox: "0 0 300 40", class: "sparkline", "aria-hidden": "true", preserveAspectRatio: "none" }, svg("polyline", { points: points.join(" ") }));
}
