// Backtests: the runs there are, and two of them beside each other.

import { getJson } from "../api.js";
import { ownCommand } from "../case/records.js";
import { interval } from "../drawings.js";
import { h, replace, words } from "../dom.js";
import { confidence, dateTime, fixed, known, number, signed, usd } from "../format.js";
import { asWritten, language, t, term } from "../i18n.js";
import { empty, fill } from "../states.js";

export function mount(main, { query, signal, setTitle }) {
  setTitle(t("nav.backtests"));
  const list = h("div", {});
  const compared = h("section", { class: "section", "aria-live": "off" });
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("backtests.title")), h("p", {}, t("backtests.lead"))), list, compared);

  const chosen = { a: query.get("a") ?? "", b: query.get("b") ?? "" };
  const compare = () => {
    if (!chosen.a || !chosen.b || chosen.a === chosen.b) {
      replace(compared, h("p", { class: "hint" }, t(chosen.a && chosen.a === chosen.b ? "backtests.same" : "backtests.choose")));
      return;
    }
    history.replaceState(null, "", `/backtests?${new URLSearchParams(chosen)}`);
    fill(compared, async () => comparison(await getJson("backtests/compare", chosen, signal)), signal);
  };
  fill(list, async () => {
    const { items } = await getJson("backtests", {}, signal);
    if (items.length === 0) {
      compared.hidden = true;
      return h("div", {}, empty(t("backtests.empty"), t("backtests.empty.do"), h("div", { class: "commands" }, ownCommand("backtest run --sample-log"))));
    }
    compare();
    return runs(items, chosen, compare);
  }, signal);
}

function runs(items, chosen, changed) {
  const pick = (side, id) => h("input", { type: "radio", name: `run-${side}`, value: id, checked: chosen[side] === id, "aria-label": t("backtests.pick", { side: side.toUpperCase(), run: id }), on: {
    change: () => {
      chosen[side] = id;
      changed();
    } } });
  const row = (id, one) => h("tr", {}, h("td", { class: "pick" }, pick("a", id)), h("td", { class: "pick" }, pick("b", id)),
    h("th", { scope: "row" }, words(id)),
    h("td", {}, one ? h("span", { class: `tag ${one.status === "finished" ? "good" : "warn"}` }, term(one.status)) : ""),
    h("td", { class: "text" }, one ? words(one.label || asWritten(told(one.changes))) : t("backtests.live")),
    h("td", { class: "n" }, one ? number(one.cases) : ""), h("td", { class: "n" }, one ? usd(one.cost_usd, t("unknown")) : ""),
    h("td", {}, one ? dateTime(one.started_at) : ""));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("backtests.runs") }, h("table", {},
    h("thead", {}, h("tr", {}, [["A"], ["B"], [t("run")], [t("run.status")], [t("run.changes")], [t("run.cases"), 1], [t("run.cost"), 1], [t("run.started")]].map(([name, right]) => h("th", { scope: "col", class: right ? "n" : "" }, name)))),
    h("tbody", {}, row("live", null), items.map((one) => row(one.run_id, one)))));
}

const told = (changes) => (typeof changes === "string" ? changes : changes ? JSON.stringify(changes) : "") || "–";

function comparison(found) {
  return h("div", {},
    h("h2", {}, t("compare.title", { a: found.a, b: found.b })),
    words(verdictOf(found), "p", { class: "notice verdict" }),
    (found.warnings ?? []).map((text) => words(asWritten(text), "p", { class: "notice warn small" })),
    h("p", { class: "hint" }, t("compare.aligned", { aligned: found.comparability.aligned, both: found.comparability.in_both, stories: found.comparability.stories, days: found.comparability.days })),
    metrics(found.metrics ?? []),
    changes(t("compare.flips", { n: found.flips?.length ?? 0 }), found.flips ?? []),
    changes(t("compare.differences", { n: found.differences?.length ?? 0 }), found.differences ?? [], true),
    spend(found.spend ?? []));
}

/** The verdict in the server's words; in Chinese, its basis: the primary metric, the others that differ, and how many cases do. */
function verdictOf({ verdict, metrics: [primary, ...others], changed_texts: changed, comparability: { aligned } }) {
  if (language() === "en") return verdict;
  const figures = [primary.low, primary.high].every(known) ? t("verdict.interval", { low: signed(primary.low, 5), high: signed(primary.high, 5) }) : "";
  const differ = others.filter((one) => ["better", "worse", "higher", "lower"].includes(one.verdict)).map((one) => `${label(one)} ${term(one.verdict)}`);
  return [`${t("metric.primary")}${t("colon")}${label(primary)} ${term(primary.verdict)}${figures}`, differ.join(t("comma")), t("verdict.changed", { n: changed, aligned })].filter(Boolean).join("；");
}

const label = (one) => `${term(one.metric)}${one.horizon ? ` @${one.horizon}` : ""}`;
const UNITS = { return: (v) => fixed(v, 5), usd: (v) => usd(v), ms: (v) => number(v, 1), probability: (v) => fixed(v, 4), share: (v) => fixed(v, 4), score: (v) => fixed(v, 4) };
const TONES = { better: "good", worse: "bad", higher: "accent", lower: "accent", changed: "accent" };

function change(delta, write) {
  const size = write(Math.abs(delta));
  return /[1-9]/.test(size) ? `${delta < 0 ? "−" : "+"}${size}` : size;
}

function metrics(all) {
  const measured = all.filter((one) => one.verdict !== "not measured");
  const missing = all.filter((one) => one.verdict === "not measured");
  const row = (one) => {
    const write = (value) => (known(value) ? (UNITS[one.unit] ?? String)(value) : "–");
    const span = Math.max(...[one.delta_low, one.delta_high, one.low, one.high].map((v) => Math.abs(v ?? 0)));
    const unknown = (value) => (known(value) ? write(value) : t("unknown"));
    const middle = (one.delta_low + one.delta_high) / 2;
    return h("tr", {}, h("th", { scope: "row" }, term(one.metric), one.horizon && ` @${one.horizon}`, one.role === "primary" && h("span", { class: "tag accent" }, t("metric.primary"))), h("td", { class: "n" }, unknown(one.a)), h("td", { class: "n" }, unknown(one.b)),
      h("td", { class: "n" }, known(one.delta) ? change(one.delta, write) : `${change(one.delta_low, write)} … ${change(one.delta_high, write)}`),
      h("td", { class: "bar-cell" }, known(one.delta_low) && interval(middle, one.low, one.high, span, { better: "is-up", worse: "is-down" }[one.verdict] ?? "is-flat")),
      h("td", { class: "n" }, known(one.low) ? `${write(one.low)} … ${write(one.high)}` : "–"),
      h("td", { class: "n" }, known(one.p_holm) ? one.p_holm.toFixed(3) : "–"),
      h("td", { class: "n" }, known(one.blocks) && one.blocks > 0 ? number(one.blocks) : "–"),
      h("td", {}, h("span", { class: `tag ${TONES[one.verdict] ?? ""}` }, term(one.verdict))));
  };
  const heads = [[t("metric")], ["A", 1], ["B", 1], ["B − A", 1], [t("metric.drawn")], [t("metric.interval"), 1], ["p (Holm)", 1], [t("metric.blocks"), 1], [t("metric.verdict")]];
  return h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("compare.metrics") }, h("table", { class: "metrics" },
    h("thead", {}, h("tr", {}, heads.map(([name, right]) => h("th", { scope: "col", class: right ? "n" : "" }, name)))), h("tbody", {}, measured.map(row)))),
  missing.length > 0 && h("p", { class: "hint pad-top" }, t("compare.not_measured"), " ", missing.map(label).join(t("comma"))));
}

function changes(title, all, withTexts = false) {
  if (all.length === 0) return null;
  return h("details", { class: "figures", open: !withTexts && all.length <= 12 }, h("summary", {}, title), h("ul", { class: "changes" }, all.slice(0, 100).map((one) => h("li", {},
    h("div", { class: "row" }, words(one.asset || "–", "strong"), h("span", { class: "tag" }, term(one.event_type)),
      h("span", {}, one.action_a === one.action_b ? term(one.action_a || "–") : `${term(one.action_a || "–")} → ${term(one.action_b || "–")}`),
      h("span", {}, `${confidence(one.confidence_a)} → ${confidence(one.confidence_b)}`),
      h("span", { class: one.delta < 0 ? "bad-ink" : "good-ink" }, signed(one.delta)),
      h("a", { class: "small", href: `/case/${encodeURIComponent(one.case_id)}` }, h("code", {}, one.case_id.slice(0, 8)))),
    withTexts && one.diff?.length > 0 && h("pre", { tabindex: 0, class: "diff" }, one.diff.map((line) => h("span", { class: line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "" }, `${line}\n`)))))));
}

function spend(both) {
  if (both.length === 0) return null;
  const rows = ["executed", "reused", "missed", "cost_usd", "avoided_cost_usd", "would_have_cost_usd", "unpriced_calls"];
  const write = (name, value) => (name.endsWith("_usd") ? usd(value, t("unknown")) : number(Number(value)));
  return h("div", { class: "scroll spend", tabindex: 0, role: "region", "aria-label": t("compare.spend") }, h("table", {}, h("caption", {}, t("compare.spend")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), both.map((one) => h("th", { scope: "col", class: "n" }, words(one.run_id))))),
    h("tbody", {}, rows.map((name) => h("tr", {}, h("th", { scope: "row" }, t(`spend.${name}`)), both.map((one) => h("td", { class: "n" }, write(name, one[name]))))))));
}
