// Starts the page: the shell around every page, which page is shown, and what the system says of itself.

import { getJson } from "./api.js";
import { h, icon, replace, withCode } from "./dom.js";
import { chooseLanguage, language, t } from "./i18n.js";
import { remember, remembered } from "./memory.js";
import * as analytics from "./pages/analytics.js";
import * as backtests from "./pages/backtests.js";
import * as bots from "./pages/bots.js";
import * as cases from "./pages/cases.js";
import * as investigations from "./pages/investigations.js";
import * as live from "./pages/live.js";
import * as missing from "./pages/missing.js";
import * as operations from "./pages/operations.js";
import * as publish from "./pages/publish.js";
import * as research from "./pages/research.js";
import * as sources from "./pages/sources.js";
import { hidePreview } from "./preview.js";
import { failed } from "./states.js";
import { tellStatus } from "./status.js";
import { keepTimes } from "./times.js";

const PAGES = { live, cases, analytics, research, investigations, backtests, bots, sources, operations };
/** Pages without a place in the menu. */
const OTHERS = { publish, missing };
const ICONS = {
  live: ["M3 12h4l3-8 4 16 3-8h4"],
  cases: ["M4 6h16", "M4 12h16", "M4 18h10"],
  analytics: ["M4 20V10", "M10 20V4", "M16 20v-7", "M21 20H3"],
  research: ["M4 5h16v11H9l-5 4z"],
  investigations: ["M10.5 4a6.5 6.5 0 1 0 .01 0", "M15.5 15.5 21 21", "M8 10.5h5", "M10.5 8v5"],
  bots: ["M5 9h14v10H5z", "M12 9V4", "M9.5 13.5h.01", "M14.5 13.5h.01", "M2 13v3", "M22 13v3"],
  sources: ["M5 19h.01", "M5 13a6 6 0 0 1 6 6", "M5 7a12 12 0 0 1 12 12"],
  operations: ["M4 6h9", "M17 6h3", "M15 4v4", "M4 12h3", "M11 12h9", "M9 10v4", "M4 18h11", "M19 18h1", "M17 16v4"],
  backtests: ["M4 12a8 8 0 1 0 3-6", "M7 2v4h4", "M12 8v4l3 2"],
};
const LOCAL = /^\/($|(live|publish|cases?|analytics|research|investigations|backtests|bots|sources|operations)(\/|$))/;
const STATUS_EVERY_MS = 15_000;
const byId = (id) => document.getElementById(id);

let shown = null;

/** Where the address points to: the page's name, what follows it, and its query. */
function place() {
  const [first, ...rest] = location.pathname.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const name = first === undefined ? "live" : first === "case" ? "cases" : Object.hasOwn(PAGES, first) || first === "publish" ? first : "missing";
  return { name, rest, query: new URLSearchParams(location.search) };
}

/** Follow a link within the page without loading it again; what a person opens elsewhere is left to the browser. */
function follow(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (link.target || link.origin !== location.origin || !LOCAL.test(link.pathname)) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  show();
}

function show({ move = true } = {}) {
  const { name, rest, query } = place();
  shown?.abort();
  shown = new AbortController();
  hidePreview();
  drawNavigation(name);
  const main = byId("main");
  main.replaceChildren();
  main.className = `page-${name}`;
  const setTitle = (title) => {
    document.title = `${title} · Newsproof`;
  };
  (PAGES[name] ?? OTHERS[name]).mount(main, { rest, query, signal: shown.signal, setTitle });
  if (move) {
    window.scrollTo(0, 0);
    const head = main.querySelector("h1");
    head?.setAttribute("tabindex", "-1");
    (head ?? main).focus({ preventScroll: true });
  }
}

function drawNavigation(current) {
  const items = Object.keys(PAGES).map((name) => h("li", {}, h("a", { href: name === "live" ? "/" : `/${name}`, "aria-current": name === current && "page" }, icon(ICONS[name]), h("span", {}, t(`nav.${name}`)))));
  byId("nav").setAttribute("aria-label", t("nav"));
  replace(byId("nav"), h("ul", {}, items));
  byId("nav").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone they are a row that scrolls
}

function drawToggles() {
  const other = language() === "zh" ? "en" : "zh";
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const languages = h("button", { class: "button quiet tiny", type: "button", lang: other, "aria-label": other === "zh" ? "切换到中文" : "Switch to English", on: {
    click: () => {
      chooseLanguage(other);
      colourPrices();
      drawToggles();
      byId("toggles").querySelector("button").focus();
      show({ move: false });
      askStatus();
    },
  } }, other === "zh" ? "中文" : "English");
  const theme = h("button", { class: "button quiet tiny", type: "button", "aria-label": t("theme"), "aria-pressed": String(dark()), on: {
    click: (event) => {
      const chosen = dark() ? "light" : "dark";
      document.documentElement.dataset.theme = chosen;
      remember("theme", chosen);
      event.currentTarget.setAttribute("aria-pressed", String(dark()));
      document.dispatchEvent(new CustomEvent("themechange"));
    },
  } }, icon(["M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z"]));
  const isRedUp = () => document.documentElement.dataset.rise === "red";
  const rise = h("button", { class: "button quiet tiny", type: "button", "aria-label": t("rise"), title: t("rise"), "aria-pressed": String(isRedUp()), on: {
    click: (event) => {
      remember("rise", isRedUp() ? "green" : "red");
      colourPrices();
      event.currentTarget.setAttribute("aria-pressed", String(isRedUp()));
      document.dispatchEvent(new CustomEvent("themechange"));
    },
  } }, h("span", { class: "rise-ink" }, "▲"), h("span", { class: "fall-ink" }, "▼"));
  replace(byId("toggles"), languages, theme, rise);
  byId("skip").textContent = t("skip");
}

/** Which way red means: to Chinese readers up, as their exchanges show it, to others down; unless chosen here. */
function colourPrices() {
  document.documentElement.dataset.rise = remembered("rise") ?? (language() === "zh" ? "red" : "green");
}

async function askStatus() {
  try {
    const status = await getJson("status");
    drawStatus(status);
    tellStatus(status);
  } catch (error) {
    drawTrouble(error.status === 401 ? "token" : "unreachable");
  }
}

function drawStatus(status) {
  const strip = byId("strip");
  strip.hidden = status.mode === "live";
  if (!strip.hidden) replace(strip, h("strong", {}, t(`mode.${status.mode}`)), h("span", {}, t("mode.hint")));
  const away = ["kafka", "clickhouse"].filter((part) => status[part] === "away");
  const missing = [...away.map((part) => t(`away.${part}`)), status.workers_seen === false && t("away.workers")].filter(Boolean);
  drawTrouble(missing.length ? "away" : null, missing);
  replace(byId("link-state"),
    h("span", { class: `state-dot ${away.length ? "lost" : "on"}` }, t(away.length ? "system.away" : "system.ok")),
    h("span", {}, `v${status.version}`));
}

function drawTrouble(kind, about) {
  const place = byId("trouble");
  const drawn = `${kind} ${language()}`;
  if (place.dataset.drawn === drawn && kind !== "away") return;
  place.dataset.drawn = drawn;
  place.hidden = kind === null;
  if (kind === "away") replace(place, h("strong", {}, t("system.away")), about.map((line) => h("span", {}, line)));
  if (kind === "unreachable") replace(byId("link-state"), h("span", { class: "state-dot lost" }, t("error.unreachable")));
  if (kind === "unreachable") replace(place, h("strong", {}, t("error.unreachable")), h("span", {}, withCode(t("error.unreachable.do"))));
  if (kind === "token") replace(place, h("strong", {}, t("token.needed")), h("a", { href: `/login?next=${encodeURIComponent(location.pathname + location.search)}` }, t("token.log_in")));
}

function start() {
  chooseLanguage(language());
  colourPrices();
  drawToggles();
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
    byId("main").scrollIntoView();
  });
  document.addEventListener("click", follow);
  window.addEventListener("popstate", () => show());
  window.addEventListener("error", (event) => byId("main").prepend(failed(new Error(event.message))));
  show({ move: false });
  keepTimes();
  askStatus();
  setInterval(askStatus, STATUS_EVERY_MS);
  window.addEventListener("online", askStatus);
  window.addEventListener("offline", () => drawTrouble("unreachable"));
}

start();
