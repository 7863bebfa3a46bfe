// What each step of a turn did, as elements: the decision, the plan, the data, and what each agent concluded.

import { meter, sparkline } from "../drawings.js";
import { h, words } from "../dom.js";
import { confidence, dateTime, figure, known } from "../format.js";
import { t, term } from "../i18n.js";
import { standing } from "../signal_row.js";

const OUTLOOK = { BULLISH: "rise", BEARISH: "fall", NEUTRAL: "" };
const BLOCKS = ["price", "macro", "fear_greed", "onchain", "indicators"];

export const outlookTag = (signal) => h("span", { class: `tag ${OUTLOOK[signal] ?? ""}` }, term(signal));

function sure(value) {
  return known(value) && h("span", { class: "sure small faint" }, t("confidence"), " ", meter(value), " ", confidence(value));
}

const ALIASES = { fear_greed_index: "fear_greed", treasury_yield_10y: "treasury_yield", transactions_per_day: "network_activity" };

/** What a figure is called, as in agents/analysis/names.py. */
function figureName(name) {
  const change = /^(.+)_change_(\d+)([hd])$/.exec(name);
  return change ? t(`figure.change.${change[3]}`, { of: figureName(change[1]), span: change[2] }) : term(ALIASES[name] ?? name);
}

/** What was decided about the question, in words. */
export const decided = (data) => t(`decision.${data.route === "cases" ? "cases" : data.cases ? "both" : data.decision}`);

export function decision(data) {
  return h("div", { class: "step-body" }, h("div", { class: "row" }, h("span", { class: "tag accent" }, decided(data)), sure(data.confidence)),
    data.reasoning && words(data.reasoning, "p", { class: "soft" }));
}

export function plan(data) {
  const strategy = data.execution_strategy ?? {};
  const after = strategy.sequential_after ?? [];
  return h("div", { class: "step-body" },
    h("ul", { class: "tasks" }, (data.task_breakdown ?? []).map((task) => h("li", {},
      h("div", { class: "row" }, h("strong", {}, term(task.agent)), h("span", { class: "tag" }, t("priority"), " ", term(task.priority)),
        h("span", { class: "small faint" }, (task.data_required ?? []).map(term).join(" · "))),
      words(task.reason, "p", { class: "soft" })))),
    h("p", { class: "small faint" }, t("plan.parallel"), " ", (strategy.parallel_agents ?? []).map(term).join(t("comma")) || "–",
      after.length > 0 && ` · ${t("plan.after")} ${after.map(term).join(t("comma"))}`, strategy.estimated_time && " · ", strategy.estimated_time && words(strategy.estimated_time)),
    data.reasoning && words(data.reasoning, "p", { class: "soft" }));
}

export function collected(data) {
  const values = BLOCKS.map((name) => [name, data[name] ?? []]).filter(([, all]) => Array.isArray(all) && all.length > 0);
  return h("div", { class: "step-body" },
    values.map(([name, all]) => h("div", { class: "block" }, h("h4", {}, t(`block.${name}`)), h("dl", { class: "figures-list" }, all.map((one) => h("div", { title: `${one.source ?? ""} · ${dateTime(one.observed_at)}` },
      h("dt", {}, words(figureName(one.name))), h("dd", {}, figure(one.value, one.unit), h("span", { class: "small faint" }, " ", words(one.source ?? ""), one.observed_at && ` · ${dateTime(one.observed_at)}`))))))),
    data.candles?.length > 0 && h("div", { class: "block" }, h("h4", {}, t("data.candles", { n: data.candles.length }), h("span", { class: "small faint" }, " ", words(`${data.candle_interval} · ${data.candle_source}`))), sparkline(data.candles.map((bar) => bar.close))),
    data.signals?.length > 0 && h("div", { class: "block" }, h("h4", {}, t("block.signals")), h("ul", {}, data.signals.map((one) => h("li", {},
      h("a", { href: `/case/${encodeURIComponent(one.case_id)}` }, words(one.summary)), " ", h("span", { class: "small faint" }, `${term(one.action)} ${confidence(one.confidence)} · ${standing(one)}`))))),
    data.unavailable?.length > 0 && h("div", { class: "notice warn small" }, h("p", {}, t("data.unavailable")), h("ul", {}, data.unavailable.map((one) => words(one, "li")))));
}

export function agent(data) {
  if (data.error) return h("div", { class: "step-body" }, h("div", { class: "notice error" }, words(data.message || data.error, "p")));
  const whole = typeof data.full === "string" ? { ...data, reasoning: data.full } : { ...data, ...(data.full ?? {}) };
  return h("div", { class: "step-body" },
    words(whole.reasoning ?? "", "p", { class: "soft" }),
    indicators(whole.indicators ?? {}),
    whole.key_factors?.length > 0 && h("div", { class: "block" }, h("h4", {}, t("agent.factors")), h("ul", { class: "plain-list" }, whole.key_factors.map((one) => words(one, "li")))),
    whole.risk_assessment && h("div", { class: "block" }, h("h4", {}, t("agent.risk")), words(whole.risk_assessment, "p", { class: "soft" })),
    doubts(whole),
    exchange(whole));
}

function indicators(all) {
  const rows = Object.entries(all);
  if (rows.length === 0) return null;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("agent.indicators") }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("agent.indicators")), h("th", { scope: "col", class: "n" }, t("agent.value")), h("th", { scope: "col" }, t("agent.impact")), h("th", { scope: "col", class: "n" }, t("agent.weight")), h("th", { scope: "col" }, t("case.source")))),
    h("tbody", {}, rows.map(([name, one]) => h("tr", {}, h("th", { scope: "row" }, words(figureName(name))),
      h("td", { class: "n" }, known(one.value) ? figure(one.value, one.unit) : t("unknown")),
      h("td", {}, outlookTag(one.impact)), h("td", { class: "n" }, confidence(one.weight)),
      h("td", {}, words(one.source || "–"), one.observed_at && ` · ${dateTime(one.observed_at)}`))))));
}

export function doubts({ missing = [], unsupported_numbers: unsupported = [] }) {
  if (missing.length + unsupported.length === 0) return null;
  return h("div", { class: "notice warn small" },
    missing.length > 0 && h("p", {}, t("agent.missing"), " ", missing.map((one, at) => [at > 0 && t("comma"), words(figureName(one))])),
    unsupported.length > 0 && h("p", {}, t("agent.unsupported"), " ", unsupported.map((one, at) => [at > 0 && t("comma"), words(one)])));
}

function exchange({ prompt_sent: sent, llm_response: reply }) {
  if (!sent && !reply) return null;
  const part = (name, text) => text && h("details", {}, h("summary", { class: "small" }, t(name)), h("pre", { tabindex: 0, dir: "auto" }, text));
  return h("div", { class: "exchange" }, part("agent.prompt", sent), part("agent.reply", reply));
}
