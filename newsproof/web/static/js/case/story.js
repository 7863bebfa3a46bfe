// The case timeline: the outcome in a sentence, what came in, what was thought and looked up, what speaks
// for and against it, and how the confidence came about. Figures and raw records come last.

import { confidenceMove } from "../drawings.js";
import { h, words } from "../dom.js";
import { confidence, dateTime, duration, known, number } from "../format.js";
import { priceChart } from "../price_chart.js";
import { language, saidIn, t, term } from "../i18n.js";
import { actionTag, assetName, flagTags, isAsset, sourceCounts, stageTag, verdictTag } from "../signal_row.js";
import { empty } from "../states.js";
import { exactTime } from "../times.js";
import { critique, evidence, searches, withReferences } from "./evidence.js";
import { calls, prompts, rawEvents, replay } from "./records.js";
import { waterfall } from "./waterfall.js";

export function showCase(found, gone) {
  // The case decides the first revision; later ones (a retraction) change some of its fields.
  const newest = found.signal && found.revisions.at(-1);
  const signal = found.signal && { ...found.signal, ...newest };
  return h("article", { class: "case" },
    found.note && h("p", { class: "notice warn small" }, t("case.note")),
    h("p", { class: "sentence" }, withReferences(found.sentence[language()], found.findings?.references)),
    head(found),
    found.case.status === "open" && h("p", { class: "notice" }, t("case.open.long")),
    signal && result(signal),
    signal && isAsset(signal.asset) && priceChart(found.case.case_id, signal.asset, gone),
    section("story", timeline(found)),
    found.findings && section("evidence", evidence(found)),
    found.confidence && section("waterfall", waterfall(found.confidence, found.revisions)),
    section("critique", critique(found.critique?.claims ?? [], found.findings?.references ?? [])),
    found.revisions.length > 1 && section("revisions", revisions(found.revisions, found.signal)),
    section("searches", searches(found.events)),
    section("calls", calls(found.calls)),
    section("prompts", prompts(found.signal?.prompt_versions ?? [], found.config_hash)),
    section("replay", replay(found)),
    section("events", rawEvents(found.events)));
}

function section(name, content) {
  return content && h("section", { class: `section case-${name}`, "aria-labelledby": `case-${name}` }, h("h2", { id: `case-${name}` }, t(`case.${name}`)), content);
}

function head({ case: one, news, claims = {} }) {
  const facts = [
    [t("case.source"), words(news?.source ?? one.source)],
    [t("case.published"), news?.published_at && exactTime(news.published_at)],
    [t("case.opened"), exactTime(one.received_at)],
    [t("case.took"), one.ended_at ? duration(new Date(one.ended_at) - new Date(one.received_at)) : t("case.open")],
    [t("case.id"), h("code", {}, one.case_id)],
    [t("case.claims"), Object.keys(claims).length > 0 && claimsOfMessage(one.case_id, Object.entries(claims))],
  ];
  return h("header", {},
    words(news?.text ?? one.text, "p", { class: "news", lang: (news?.language ?? one.language) === "zh" ? "zh" : null }),
    h("dl", { class: "facts case-facts" }, facts.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

/** Which of a message's claims this case is about, with links to the others. */
function claimsOfMessage(own, claims) {
  const number = claims.findIndex(([, id]) => id === own) + 1;
  return [t("case.claims.number", { number, of: claims.length }),
    ...claims.map(([asset, id]) => [" ", id === own ? h("strong", {}, asset) : h("a", { href: `/case/${encodeURIComponent(id)}` }, asset)])];
}

function result(signal) {
  return h("section", { class: "card result", "aria-label": t("case.signal") },
    h("div", { class: "row" }, assetName(signal.asset), actionTag(signal), verdictTag(signal), stageTag(signal.stage),
      h("span", { class: "tag" }, term(signal.event_type)), h("span", { class: "soft small" }, `${t("case.strength", { of: term(signal.strength) })} · ${t(`timeframe.${signal.timeframe}`)}`)),
    confidenceMove(signal.preliminary_confidence, signal.confidence),
    calibrated(signal),
    h("p", { class: "small faint" }, sourceCounts(signal)),
    flagTags(signal.risk_flags),
    h("p", { class: "small faint" }, t("case.valid", { until: dateTime(signal.valid_until) }), " · ", t("case.judged", { by: signal.model || t("case.rules") })));
}

/** How often signals like it came true, with the interval, where a curve of its horizon was fitted. */
function calibrated({ calibration: of, confidence_calibrated: p, horizon }) {
  if (!of) return null;
  const said = t("case.calibrated", { p: confidence(p), low: confidence(of.low), high: confidence(of.high), n: number(of.n_stories), hours: number(horizon / 3600) });
  return h("p", { class: "small calibrated" }, said, known(of.p_true) && [" · ", t("case.calibrated.true", { p: confidence(of.p_true) })]);
}

function timeline(found) {
  if (found.timeline.length === 0) return empty(t("case.story.empty"));
  return h("ol", { class: "timeline" }, gathered(found.timeline).map((step, at, all) => h("li", { class: step.aside ? "phase-aside" : `phase-${phaseTone(step.phase)}` },
    h("div", { class: "when small faint" }, `+${duration(step.after_s * 1000)} `),
    h("div", {},
      !step.aside && (at === 0 || all[at - 1].phase !== step.phase) && h("p", { class: "phase" }, term(step.phase)),
      words(step.said, "p", { class: step.aside ? "asides" : "told" }),
      step.thought && words(saidIn(step, "thought"), "p", { class: "thought" })))));
}

/** Replies that came one after the other are one line, equal ones once: what counts is what was made of them. */
function gathered(steps) {
  const made = [];
  for (const one of steps) {
    const last = made.at(-1);
    const step = { ...one, said: saidIn(one, "what"), aside: one.phase === "asking" };
    if (!step.aside || !last?.aside) made.push(step);
    else if (!last.said.includes(step.said)) last.said += ` ${step.said}`;
  }
  return made;
}

function phaseTone(phase) {
  if (/recover|fail|cancel|retract|degrad/.test(phase)) return "trouble";
  return /synth|conclu|signal|end/.test(phase) ? "end" : "plain";
}

function revisions(all, signal) {
  const first = signal?.preliminary_confidence;
  return h("ol", { class: "revisions" }, all.map((one) => h("li", { class: "row" },
    h("span", { class: "tag" }, t("revision", { number: one.revision })), verdictTag(one), stageTag(one.stage), actionTag(one),
    confidenceMove(one.preliminary_confidence ?? first, one.confidence), h("span", { class: "small faint" }, exactTime(one.decided_at)),
    one.notes && words(saidIn(one, "notes"), "p", { class: "small soft wide" }))));
}
