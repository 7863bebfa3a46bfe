// A market's prices around a signal, with the signals on it. The library that draws them comes when there is something to
// draw. Every text of the chart is beside it, too: a canvas says nothing to a screen reader.

import { getJson } from "./api.js";
import { ownCommand } from "./case/records.js";
import { external, h, replace, words } from "./dom.js";
import { confidence, dateTime, figure } from "./format.js";
import { language, t, term } from "./i18n.js";
import { remember, remembered } from "./memory.js";
import { failed, loading } from "./states.js";
import { whenKnown } from "./status.js";

const DAYS = [1, 7, 30];
const SETTLED_MS = 250; // Who steps through a list asks for the chart of the line where they stay.
const ABOUT = "https://www.tradingview.com/";
const dark = matchMedia("(prefers-color-scheme: dark)");
let drawn = null; // One at a time: what is drawn elsewhere is given back.
let hadPrices = true; // Whether the last one had: a chart without prices is placed below its neighbours.

/** The chart of a case's signal on an asset; `gone` is the signal that ends with the page. */
export function priceChart(caseId, asset, gone) {
  const place = h("div", { class: "price-chart-place" });
  const choices = DAYS.map((days) => h("button", { class: "button quiet tiny", type: "button", on: { click: () => choose(days) } }, t("chart.days", { n: days })));
  const node = h("section", { class: `price-chart${hadPrices ? "" : " none"}`, "aria-label": t("chart.title") },
    h("div", { class: "row" }, h("h3", {}, t("chart.title")), h("div", { class: "row choices", role: "group", "aria-label": t("chart.span") }, choices)), place);
  let days = DAYS.includes(Number(remembered("chart.days"))) ? Number(remembered("chart.days")) : DAYS[0];
  const press = () => choices.forEach((one, at) => one.setAttribute("aria-pressed", String(DAYS[at] === days)));
  const choose = (chosen) => {
    days = chosen;
    remember("chart.days", String(days));
    press();
    load();
  };
  const load = async () => {
    const mine = days;
    const isOver = () => gone.aborted || !node.isConnected || mine !== days;
    if (isOver()) return;
    replace(place, loading());
    try {
      const { market, why } = await getJson("prices/candles", { case: caseId, days }, gone);
      if (isOver()) return;
      hadPrices = market !== null;
      node.classList.toggle("none", !hadPrices);
      if (!hadPrices) return void replace(place, without(why, asset));
      const library = await import("/static/vendor/lightweight-charts.js");
      if (!isOver()) draw(library, place, market, caseId, gone);
    } catch (error) {
      if (!isOver()) replace(place, failed(error, load));
    }
  };
  press();
  setTimeout(load, SETTLED_MS);
  return node;
}

/** Why there is no chart, and what to do. */
function without(why, asset) {
  const place = h("div", { class: "small soft" }, h("p", {}, t(`chart.${why}`, { asset })));
  if (why === "no_signal") return place;
  place.append(ownCommand(`outcomes import --exchange binance --symbol ${asset}/USDT`));
  whenKnown(({ mode }) => mode !== "live" && place.append(h("p", {}, t("chart.sample")), ownCommand("outcomes import --sample")));
  return place;
}

function draw(library, place, market, caseId, gone) {
  const canvas = h("div", { class: "price-canvas", role: "img", "aria-label": said(market) });
  replace(place, canvas,
    h("p", { class: "small faint" }, words([market.symbol, market.venue].filter(Boolean).join(" · ")), " · ", t("chart.step", { step: stepWords(market.step_s) }),
      market.synthetic && [" ", h("span", { class: "tag warn" }, t("chart.synthetic"))]),
    listed(market.signals, caseId),
    h("p", { class: "small faint external" }, external(ABOUT, "TradingView Lightweight Charts™", { host: false }), " © 2026 TradingView, Inc."));
  drawn?.remove();
  // Its own mark is set as markup, which the page forbids; the link below replaces it.
  const chart = drawn = library.createChart(canvas, { autoSize: true, layout: { attributionLogo: false }, handleScale: { mouseWheel: false }, handleScroll: { mouseWheel: false, vertTouchDrag: false } });
  const series = chart.addSeries(library.CandlestickSeries, { borderVisible: false, priceFormat: { type: "custom", formatter: (value) => figure(value), minMove: least(market.candles) } });
  // The library knows no time zones: times are moved by the reader's, as it was at the first candle.
  const shift = -60 * new Date(market.candles[0][0] * 1000).getTimezoneOffset();
  series.setData(market.candles.map(([at, open, high, low, close]) => ({ time: at + shift, open, high, low, close })));
  const markers = library.createSeriesMarkers(series, []);
  const colour = () => {
    const ink = inks(canvas);
    chart.applyOptions({
      layout: { background: { type: "solid", color: "rgba(0, 0, 0, 0)" }, textColor: ink.soft, fontFamily: getComputedStyle(canvas).fontFamily },
      localization: { locale: language() === "zh" ? "zh-CN" : "en-GB" },
      grid: { vertLines: { color: ink.line }, horzLines: { color: ink.line } },
      rightPriceScale: { borderColor: ink.line },
      timeScale: { borderColor: ink.line, timeVisible: true, maxBarSpacing: 14 },
    });
    series.applyOptions({ upColor: ink.rise, wickUpColor: ink.rise, downColor: ink.fall, wickDownColor: ink.fall });
    markers.setMarkers(marked(market, caseId, ink).map((one) => ({ ...one, time: one.time + shift })));
  };
  colour();
  chart.timeScale().fitContent();
  const isMine = () => drawn === chart;
  document.addEventListener("themechange", () => isMine() && colour(), { signal: gone });
  dark.addEventListener("change", () => isMine() && colour(), { signal: gone });
  gone.addEventListener("abort", () => {
    if (!isMine()) return;
    chart.remove();
    drawn = null;
  });
}

const stepWords = (seconds) => (seconds < 3600 ? `${seconds / 60} ${t("unit.min")}` : `${seconds / 3600} ${t("unit.h")}`);

/** The colours of the page's stylesheet, as they are now. */
function inks(near) {
  const probe = h("span", { hidden: true });
  near.append(probe);
  const found = Object.fromEntries(["rise", "fall", "bad", "soft", "line"].map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return found;
}

/** Orders, retractions, and the signal itself, at the first candle in which one could act on them; later than the last: none. */
function marked({ candles, step_s: step, signals }, caseId, ink) {
  const candle = (at) => candles.find(([opens]) => opens + step > Date.parse(at) / 1000)?.[0];
  const found = [];
  for (const one of signals) {
    const own = one.case_id === caseId;
    const shape = { buy: ["arrowUp", "belowBar", ink.rise], sell: ["arrowDown", "aboveBar", ink.fall] }[one.action] ?? (own && ["circle", "aboveBar", ink.soft]);
    const put = (at, [kind, position, color], text) => candle(at) && found.push({ time: candle(at), shape: kind, position, color, text: own ? text : "", size: own ? 2 : 1 });
    if (shape) put(one.at, shape, term(one.action));
    if (one.withdrawn_at && (own || one.action !== "observe")) put(one.withdrawn_at, ["square", "aboveBar", ink.bad], term(one.withdrawn));
  }
  return found.sort((one, other) => one.time - other.time);
}

function listed(signals, caseId) {
  if (signals.length === 0) return null;
  return h("details", { class: "small" }, h("summary", {}, t("chart.signals", { n: signals.length })),
    h("ul", {}, signals.map((one) => h("li", {}, h("a", { href: `/case/${encodeURIComponent(one.case_id)}`, "aria-current": one.case_id === caseId && "true" },
      `${dateTime(one.at)} · ${term(one.action)} ${confidence(one.confidence)} · ${one.verdict ? term(one.verdict) : t("verdict.none.short")}`),
    one.withdrawn_at && ` · ${term(one.withdrawn)} ${dateTime(one.withdrawn_at)}`))));
}

function said({ symbol, candles, signals }) {
  const at = (candle) => dateTime(new Date(candle[0] * 1000).toISOString());
  const [first, last] = [candles[0], candles.at(-1)];
  return t("chart.alt", { symbol, from: at(first), to: at(last), low: figure(Math.min(...candles.map((one) => one[3]))), high: figure(Math.max(...candles.map((one) => one[2]))), last: figure(last[4]), n: signals.length });
}

/** The least move that the axis shows: a thousandth of the price or less, as a power of ten. */
const least = (candles) => 10 ** (Math.floor(Math.log10(candles[0][1] || 1)) - 3);
