// Figures and times as they are read, in the language of the page.

import { language, t } from "./i18n.js";

const locale = () => (language() === "zh" ? "zh-CN" : "en-GB");

export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** The value without a sign where it rounds to nothing: there is no negative zero. */
const unsigned = (value, digits) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value);

export function number(value, digits = 0) {
  if (!known(value)) return "–";
  return unsigned(value, digits).toLocaleString(locale(), { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A figure of a source, with the digits that matter for its size: below 1 those are the first four that are not 0. */
export function figure(value, unit = "") {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  let shown = "0";
  if (size >= 1e9) shown = value.toLocaleString(locale(), { notation: "compact", maximumFractionDigits: 2 });
  else if (size >= 1) shown = value.toLocaleString(locale(), { maximumFractionDigits: size >= 1000 ? 0 : 2 });
  else if (size >= 1e-15) shown = value.toLocaleString(locale(), { maximumSignificantDigits: 4 });
  else if (size > 0) shown = value.toExponential(3);
  return unit === "%" || unit === "percent" ? shown + t("unit.percent") : unit ? `${shown} ${unit}` : shown;
}

export const fixed = (value, digits) => (known(value) ? unsigned(value, digits).toFixed(digits) : "–");
export const confidence = (value) => fixed(value, 2);

/** A change with its sign; one that rounds to nothing has none. */
export function signed(value, digits = 2) {
  if (!known(value)) return "";
  const shown = Math.abs(value).toFixed(digits);
  return `${Number(shown) === 0 ? "" : value < 0 ? "−" : "+"}${shown}`;
}

const LEAST_USD = 0.000001;

/** US dollars; a price that is not known is said to be so, never 0, and neither is a small one. */
export function usd(value, unknown = "?") {
  const amount = value === null || value === undefined || value === "" ? NaN : Number(value);
  if (!Number.isFinite(amount)) return unknown;
  const size = Math.abs(amount);
  if (size === 0) return "0";
  const sign = amount < 0 ? "−" : "";
  if (size < LEAST_USD) return amount < 0 ? `>−${LEAST_USD.toFixed(6)}` : `<${LEAST_USD.toFixed(6)}`;
  return sign + (size >= 1 ? size.toFixed(2) : size.toFixed(size >= 0.01 ? 4 : 6));
}

/** A sum of known prices as words: of `unpriced` other calls nobody knows the price, so it is the least it can be. */
export function cost(amount, unpriced = 0, unit = " USD") {
  const shown = usd(amount, t("unknown"));
  if (shown === t("unknown") || (unpriced > 0 && Number(amount) === 0)) return t("unknown");
  return unpriced > 0 ? t("cost.at_least", { cost: `${shown}${unit}` }) : `${shown}${unit}`;
}

export function duration(ms) {
  if (!known(ms)) return "–";
  if (ms < 1000) return `${number(ms, ms > 0 && ms < 10 ? 1 : 0)} ${t("unit.ms")}`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${number(seconds, 1)} ${t("unit.s")}`;
  const minutes = seconds / 60;
  return minutes < 120 ? `${number(minutes, 0)} ${t("unit.min")}` : `${number(minutes / 60, 1)} ${t("unit.h")}`;
}

function moment(text) {
  const at = new Date(text ?? "");
  return Number.isNaN(at.getTime()) ? null : at;
}

/** Date and time in the reader's zone, which is named. */
export function dateTime(text) {
  const at = moment(text);
  return at === null ? "–" : at.toLocaleString(locale(), { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
}

/** The time of day, to the second. */
export const clock = (text) => moment(text)?.toLocaleTimeString(locale(), { hour12: false }) ?? "–";

export function day(text) {
  const at = moment(text);
  return at === null ? "–" : at.toLocaleDateString(locale(), { dateStyle: "medium" });
}

const DAY_MS = 86_400_000;

/** The time of day of what is less than 24 hours old, else the day, with its year where that is another one; short, for tables. */
export function moment24(text, now = Date.now()) {
  const at = moment(text);
  if (at === null) return "–";
  if (Math.abs(now - at.getTime()) < DAY_MS) return at.toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  if (at.getFullYear() === new Date(now).getFullYear()) return at.toLocaleDateString(locale(), { day: "numeric", month: "short" });
  // In Chinese a date with its year in characters is too long for a column.
  return at.toLocaleDateString(locale(), language() === "zh" ? {} : { day: "numeric", month: "short", year: "2-digit" });
}

/** How much of a time is left; null where it is over. */
export function left(text, now = Date.now()) {
  const at = moment(text);
  if (at === null || at.getTime() <= now) return null;
  const minutes = (at.getTime() - now) / 60_000;
  if (minutes < 60) return `${Math.ceil(minutes)} ${t("unit.min")}`;
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} ${t("unit.h")}` : `${Math.floor(minutes / 1440)} ${t("unit.d")}`;
}

/** How long ago, in the largest unit that fits. */
export function ago(text, now = Date.now()) {
  const at = moment(text);
  if (at === null) return "–";
  const seconds = (at.getTime() - now) / 1000;
  const relative = new Intl.RelativeTimeFormat(locale(), { numeric: "auto", style: "short" });
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([many]) => Math.abs(seconds) >= many) ?? [1, "second"];
  return Math.abs(seconds) > 30 * 86400 ? day(text) : relative.format(Math.round(seconds / size), unit);
}

export const utc = (text) => moment(text)?.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC") ?? "";
