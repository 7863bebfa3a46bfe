// Figures and times as they are read, in the language of the page.

import { language } from "./i18n.js";

const locale = () => (language() === "zh" ? "zh-CN" : "en-GB");

export const known = (value) => typeof value === "number" && Number.isFinite(value);

export function number(value, digits = 0) {
  if (!known(value)) return "–";
  return value.toLocaleString(locale(), { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A figure of a source, with the digits that matter for its size. */
export function figure(value, unit = "") {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 1000 || Number.isInteger(value) ? 0 : size >= 1 ? 2 : 4;
  const shown = size >= 1e9 ? value.toLocaleString(locale(), { notation: "compact", maximumFractionDigits: 2 }) : value.toLocaleString(locale(), { maximumFractionDigits: digits });
  return unit === "%" || unit === "percent" ? `${shown} %` : unit ? `${shown} ${unit}` : shown;
}

export const confidence = (value) => (known(value) ? value.toFixed(2) : "–");
export const signed = (value, digits = 2) => (known(value) ? `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}` : "");

/** US dollars; a price that is not known is said to be so, never 0. */
export function usd(value, unknown = "?") {
  const amount = value === null || value === undefined || value === "" ? NaN : Number(value);
  if (!Number.isFinite(amount)) return unknown;
  if (amount === 0) return "0";
  return amount >= 1 ? amount.toFixed(2) : amount.toFixed(amount >= 0.01 ? 4 : 6);
}

export function duration(ms) {
  if (!known(ms)) return "–";
  if (ms < 1000) return `${number(ms, ms > 0 && ms < 10 ? 1 : 0)} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${number(seconds, 1)} s`;
  const minutes = seconds / 60;
  return minutes < 120 ? `${number(minutes, 0)} min` : `${number(minutes / 60, 1)} h`;
}

function moment(text) {
  const at = new Date(text ?? "");
  return Number.isNaN(at.getTime()) ? null : at;
}

/** Date and time in the reader's zone; a time element says the exact one in UTC. */
export function dateTime(text) {
  const at = moment(text);
  return at === null ? "–" : at.toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
}

export function clock(text) {
  const at = moment(text);
  return at === null ? "–" : at.toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function day(text) {
  const at = moment(text);
  return at === null ? "–" : at.toLocaleDateString(locale(), { dateStyle: "medium" });
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
