// "3 min ago", kept true while the page is open; the exact time, in UTC, is the element's title.

import { h } from "./dom.js";
import { ago, dateTime, utc } from "./format.js";

const EVERY_MS = 30_000;

export function agoTime(at, attributes = {}) {
  return h("time", { class: "small faint", datetime: at, title: utc(at), data: { ago: "1" }, ...attributes }, ago(at));
}

/** The time in the reader's zone. */
export function exactTime(at) {
  return h("time", { datetime: at, title: utc(at) }, dateTime(at));
}

/** Call `look` now, every so often while the page is in sight, and when it comes back into sight. */
export function whileSeen(look, everyMs, signal) {
  const seen = () => document.visibilityState === "visible" && look();
  const timer = setInterval(seen, everyMs);
  document.addEventListener("visibilitychange", seen, { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
  look();
}

/** Update every "ago" of the page, twice a minute. */
export function keepTimes() {
  setInterval(() => {
    for (const one of document.querySelectorAll("time[data-ago]")) {
      const now = ago(one.dateTime);
      if (one.textContent !== now) one.textContent = now;
    }
  }, EVERY_MS);
}
