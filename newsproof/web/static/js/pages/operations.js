// Operations: how the installation is, what is not as it should be, and what to do about it. What nobody says is "unknown".

import { getJson } from "../api.js";
import { ownCommand } from "../case/records.js";
import { h, replace, withCode, words } from "../dom.js";
import { clock, dateTime, duration, known, number, usd } from "../format.js";
import { t, term } from "../i18n.js";
import { letterTables } from "../operations/letters.js";
import { failed, loading } from "../states.js";
import { stackedTable } from "../tables.js";
import { agoTime, whileSeen } from "../times.js";

const EVERY_MS = 5_000;
const STALLED_S = 5; // a shorter one is the time between two fetches
const TONES = { ready: "good", ok: "good", waits: "warn", away: "bad" };

export function mount(main, { signal, setTitle }) {
  setTitle(t("nav.operations"));
  const asOf = h("p", {});
  const trouble = h("div", {});
  const parts = Object.fromEntries(["problems", "figures", "processes", "budget", "breakers", "audit"].map((name) => [name, part(name)]));
  const letters = letterTables(signal, () => look());
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("ops.title")), asOf), trouble,
    parts.problems.place, parts.figures.place, letters.place, parts.processes.place, parts.budget.place, parts.breakers.place, parts.audit.place);
  parts.problems.place.append(loading());

  let at = null;
  async function look() {
    try {
      const found = await getJson("operations", {}, signal);
      at = found.at;
      replace(trouble);
      replace(asOf, t("ops.as_of", { at: clock(at) }));
      for (const [name, draw] of Object.entries(DRAWN)) parts[name].show(draw(found));
      letters.show(found.dead_letters);
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (at === null) parts.problems.place.replaceChildren();
      const said = failed(error, () => look());
      if (at !== null) said.append(h("p", {}, t("ops.stale", { at: clock(at) })));
      if (trouble.textContent !== said.textContent) trouble.replaceChildren(said);
    }
  }

  whileSeen(look, EVERY_MS, signal);
}

/** A section that is redrawn only if it would look different: reading and selecting are not disturbed. */
function part(name) {
  const place = h("section", { class: `ops-${name}`, "aria-label": t(`ops.${name}`) });
  return { place, show(node) {
    if (place.firstElementChild && place.firstElementChild.isEqualNode(node)) return;
    place.replaceChildren(node);
  } };
}

const said = (value, write) => (value === null || value === undefined ? t("unknown") : write(value));
const head = (name, hint) => [h("h2", {}, t(`ops.${name}`)), hint && h("p", { class: "hint" }, hint)];
const seconds = (value) => duration(value * 1000);
const sum = (values) => (values.every((one) => !known(one)) ? null : values.reduce((all, one) => all + (one ?? 0), 0));

/** Section by section: what of the answer it shows. */
const DRAWN = { problems, figures, processes, budget, breakers, audit };

function problems(found) {
  const limits = found.limits;
  const places = { lag: number(limits.consumer_lag), sink: number(limits.sink_lag), case: seconds(limits.oldest_open_case_s), news: seconds(limits.no_news_s), share: number(limits.budget_left_share * 100), failures: number(limits.source_failures), exit: seconds(limits.exit_pending_s) };
  const away = ["kafka", "clickhouse"].filter((name) => found.status[name] !== "ok").map((name) => `${name}_away`);
  const rows = [...away, ...found.problems].map((name) => h("li", { class: "problem" }, h("strong", {}, t(`ops.bad.${name}`)), h("span", {}, withCode(t(`ops.do.${name}`, places)))));
  const unknown = unknownOf(found);
  return h("div", {}, rows.length > 0 ? h("ul", { class: "problems notice" }, rows) : h("p", { class: "notice" }, t(unknown.length ? "ops.well.known" : "ops.well")),
    unknown.length > 0 && h("p", { class: "notice warn" }, t("ops.unknown", { what: unknown.join(t("comma")) }), " ", t(`ops.unknown.${unknownWhy(found)}`)));
}

function unknownOf(found) {
  const missing = { "ops.figure.news": found.log.behind.news, "ops.figure.sink": found.log.sink_behind, "ops.figure.open": found.cases.open,
    "ops.letters": found.dead_letters, "ops.budget": found.budget, "ops.breakers": found.breakers };
  return Object.entries(missing).filter(([, value]) => value === null).map(([key]) => t(key));
}

function unknownWhy(found) {
  if (found.status.kafka !== "ok") return "kafka";
  if (found.processes.length === 0) return "processes";
  return found.processes.some((one) => one.state === "away") ? "away" : "reading";
}

function figures(found) {
  const { log, cases, dead_letters: letters } = found;
  const of = (kind) => found.budget?.find((one) => one.kind === kind);
  const bad = new Set(found.problems);
  const lags = (...all) => all.some((n) => n > found.limits.consumer_lag);
  const open = said(cases.open, (n) => (known(cases.may_be_open) ? t("ops.of", { n: number(n), most: number(cases.may_be_open) }) : number(n)));
  const facts = [
    ["news", said(log.behind.news, number), log.paused_by.length ? t("ops.paused", { why: log.paused_by.map((why) => t(`ops.paused.${why}`)).join(t("comma")) }) : "", lags(log.behind.news)],
    ["journal", said(sum([log.behind.cases, log.behind.research]), number), log.stalled_s >= STALLED_S ? t("ops.stalled", { for: seconds(log.stalled_s) }) : "", lags(log.behind.cases, log.behind.research)],
    ["sink", said(log.sink_behind, number), log.sink_waits ? t("ops.sink.waits") : "", bad.has("sink_behind")],
    ["open", open, cases.oldest ? h("a", { href: `/case/${encodeURIComponent(cases.oldest.case_id)}` }, t("ops.oldest", { age: age(cases.oldest.age_s) })) : "", bad.has("oldest_open_case")],
    ["newest", cases.newest_at ? agoTime(cases.newest_at, { class: "" }) : cases.open === null ? t("unknown") : t("ops.none_yet"), "", bad.has("no_news")],
    ["letters", said(letters, (one) => number(one.waiting)), letters?.count ? t("ops.letters.all", { n: letters.count }) : "", bad.has("dead_letters")],
    ["money", said(of("month_usd"), (one) => `${usd(one.left)} USD`), of("month_usd") ? t("ops.of_limit", { limit: `${usd(of("month_usd").limit)} USD` }) : "", bad.has("budget_low")],
    ["calls", said(of("tool_calls"), (one) => number(one.left)), of("tool_calls") ? t("ops.of_limit", { limit: number(of("tool_calls").limit) }) : "", bad.has("tool_calls_low")],
  ];
  return h("dl", { class: "facts key-figures ops-facts" }, facts.map(([name, value, note, wrong]) => h("div", { class: `card${wrong ? " wrong" : ""}` },
    h("dt", {}, t(`ops.figure.${name}`)), h("dd", {}, value, note && h("span", { class: "small faint note" }, note)))));
}

/** In whole minutes above one, so that the line is not another one with every look. */
const age = (value) => (value < 60 ? t("ops.under_a_minute") : duration(Math.floor(value / 60) * 60_000));

function processes(found) {
  const servers = ["kafka", "clickhouse"].map((name) => ({ name, kind: "server", state: found.status[name] === "ok" ? "ok" : "away", waits_for: {}, seen_at: null }));
  const rows = [...found.processes, ...servers].map((one) => h("tr", {}, h("th", { scope: "row" }, words(one.name)),
    h("td", {}, h("span", { class: `tag ${TONES[one.state] ?? ""}` }, t(`ops.state.${one.state}`))),
    h("td", {}, one.state === "away" ? (one.seen_at ? agoTime(one.seen_at) : t(one.kind === "server" ? "unknown" : "ops.never_seen")) : t("ops.now")),
    h("td", { class: "text" }, Object.entries(one.waits_for).map(([what, why]) => `${what}${t("colon")}${why}`).join("; ")), h("td", {}, t(`ops.kind.${one.kind}`))));
  return h("div", {}, head("processes"), found.processes.length === 0 && h("p", { class: "notice warn" }, t("ops.processes.none")),
    stackedTable(t("ops.processes"), [[t("ops.name")], [t("ops.state")], [t("ops.seen")], [t("ops.waits_for")], [t("ops.kind")]], rows));
}

function budget(found) {
  if (found.budget === null) return h("div", {}, head("budget"), h("p", { class: "hint" }, t("ops.unknown.figures")));
  const write = { tool_calls: number };
  const rows = found.budget.map((one) => {
    const say = write[one.kind] ?? ((value) => usd(value));
    return h("tr", {}, h("th", { scope: "row" }, t(`ops.budget.${one.kind}`)), h("td", { class: "n" }, say(one.spent)), h("td", { class: "n" }, say(one.left)), h("td", { class: "n" }, say(one.limit)),
      h("td", { class: "n" }, one.limit > 0 ? `${number((100 * one.left) / one.limit)} %` : "–"));
  });
  return h("div", {}, head("budget", t("ops.budget.hint")), stackedTable(t("ops.budget"), [[t("ops.budget.kind")], [t("ops.budget.spent"), 1], [t("ops.budget.left"), 1], [t("ops.budget.limit"), 1], [t("ops.budget.share"), 1]], rows));
}

function breakers(found) {
  if (found.breakers === null || found.breakers.length === 0) return h("div", {}, head("breakers"), h("p", { class: "hint" }, t(found.breakers === null ? "ops.unknown.figures" : "ops.breakers.none")));
  const rows = found.breakers.map((one) => h("tr", {}, h("th", { scope: "row" }, words(one.provider)), h("td", {}, h("span", { class: `tag ${{ closed: "good", half_open: "warn" }[one.state] ?? "bad"}` }, t(`ops.breaker.${one.state}`))),
    h("td", {}, term(one.kind)), h("td", {}, words(one.model || "–")), h("td", {}, words(one.process)), h("td", { class: "n" }, said(one.opened, number))));
  return h("div", {}, head("breakers", t("ops.breakers.hint")), stackedTable(t("ops.breakers"), [[t("ops.provider")], [t("ops.state")], [t("ops.call")], [t("ops.model")], [t("ops.process")], [t("ops.opened"), 1]], rows));
}

function audit(found) {
  const last = found.audit;
  const broken = Object.entries(last?.broken ?? {}).filter(([, n]) => n > 0).map(([name, n]) => t(`ops.audit.${name}`, { n: number(n) }));
  return h("div", {}, head("audit"), last === null ? h("p", { class: "hint" }, t("ops.audit.none")) : h("p", { class: "row" },
    h("span", { class: `tag ${last.clean ? "good" : "bad"}` }, t(last.clean ? "ops.audit.clean" : "ops.audit.broken")), h("span", {}, dateTime(last.at)), h("span", {}, broken.join(t("semicolon")))),
  h("p", { class: "hint" }, t("ops.audit.do")), ownCommand("audit"));
}
