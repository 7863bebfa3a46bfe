// What was looked up, what was found, and what the critique made of it claim by claim.

import { meter } from "../drawings.js";
import { external, h, words } from "../dom.js";
import { confidence, day, known, utc } from "../format.js";
import { asWritten, saidIn, t, term } from "../i18n.js";
import { flagTag } from "../signal_row.js";

export const STANCE = { supports: "good", denies: "bad", hedges: "warn", earlier: "warn", unrelated: "" };
const OF_CRITIC = { supported: "good", refuted: "bad" };

export function searches(events) {
  const all = events.filter((one) => one.accepted && one.event.type === "newsproof.search_completed").flatMap((one) => one.event.outcomes);
  if (all.length === 0) return null;
  return h("ul", { class: "searches" }, all.map((one) => h("li", {},
    h("span", { class: "tag" }, words(term(one.provider))), " ",
    words(one.query), " ",
    one.failure
      ? h("span", { class: "tag bad" }, words(`${term(one.failure.kind)}${t("colon")}${one.failure.message}`))
      : h("span", { class: "small faint" }, t("searches.hits", { n: one.hits }), one.cached ? ` · ${t("searches.cached")}` : ""))));
}

export function evidence({ findings, timeline, critique: weighed, pages }) {
  const { references: found = [], dropped = [] } = findings;
  // The last search is described by the results of all searches.
  const last = timeline.findLast((one) => one.phase === "searched");
  const told = last && saidIn(last, "thought");
  const critic = Boolean(weighed?.stances);
  return h("div", {}, told && !critic && words(told, "p", { class: "soft findings" }),
    weighed && found.length > 0 && h("p", { class: "hint findings" }, t(critic ? "case.evidence.critic" : "case.evidence.rules")),
    found.length === 0 ? h("p", { class: "hint" }, t("case.evidence.none"))
      : h("ol", { class: "evidence" }, found.map((one, at) => piece(one, pages[at], critic))),
    dropped.length > 0 && h("details", { class: "dropped" }, h("summary", {}, t("case.dropped", { n: dropped.length })),
      h("ul", {}, dropped.map((one) => h("li", {}, flagTag(one.reason, "warn"), " ", external(one.url, one.title || one.url))))));
}

/** One reference as it counts: by what the critic read on it and in which words, or by the word rules, where no critic did. */
function piece(one, { stance, said: read, quoted }, critic) {
  const isUnquoted = read?.quote && !quoted;
  const doubts = [
    read?.same_subject === false && t("read.subject"),
    read?.same_event === false && t("read.event"),
    read?.stage === "differs" && t("read.stage"),
    read?.place === "differs" && t("read.place"),
    read?.amount === "differs" && t("read.amount"),
  ].filter(Boolean);
  const marks = [
    h("li", { class: `tag ${STANCE[stance] ?? ""}` }, !critic && stance === "unrelated" ? t("read.unclear") : term(stance)),
    !read && h("li", { class: "tag" }, t(critic ? "read.not_shown" : "read.rules")),
    read && read.stance !== stance && h("li", { class: "tag warn" }, t("read.as", { stance: term(read.stance) })),
    speaker(one, read),
    doubts.map((words_of_it) => h("li", { class: "tag warn" }, words_of_it)),
    one.official && h("li", { class: "tag accent" }, t("official")),
    one.independent ? h("li", { class: "tag good" }, t("independent")) : h("li", { class: "tag" }, t("dependent")),
    one.source_credibility !== "unknown" && h("li", { class: "tag" }, t("credibility"), " ", term(one.source_credibility)),
    h("li", { class: "tag" }, t("quality", { score: Math.round(one.quality_score) })),
    one.published_at && h("li", { class: "tag", title: utc(one.published_at) }, day(one.published_at)),
  ];
  const text = one.passage || one.snippet;
  return h("li", { id: `evidence-${one.reference_number}`, tabindex: -1 },
    h("span", { class: "number" }, `[${one.reference_number}]`),
    h("div", {}, h("p", {}, external(one.url, one.title || one.url)), h("ul", { class: "tags", "aria-label": t("marks") }, marks),
      isUnquoted && h("p", { class: "small bad-ink" }, t("read.unquoted")),
      read?.quote && words(read.quote, "blockquote", { class: `quote small${isUnquoted ? " not-there" : ""}` }),
      read?.reason && words(asWritten(read.reason), "p", { class: "small faint" }),
      text && words(text, "p", { class: "small soft snippet" })));
}

/** Who speaks: the party or authority whose page it is or that is quoted there, and whom the page names as its source. */
function speaker(one, read) {
  const role = read && read.speaks_for && read.speaks_for !== "other" ? t(`read.${read.speaks_for}`) : one.speaker && t("read.speaks");
  return [
    role && h("li", { class: "tag accent" }, role, one.speaker && [t("colon"), words(one.speaker)]),
    read?.cites && h("li", { class: "tag" }, t("read.cites"), t("colon"), words(read.cites)),
  ];
}

export function critique(claims, found) {
  if (claims.length === 0) return null;
  const known_numbers = new Set(found.map((one) => one.reference_number));
  return h("ul", { class: "claims" }, claims.map((one) => h("li", { class: "card" },
    h("div", { class: "row" }, h("span", { class: `tag ${OF_CRITIC[one.verdict] ?? "warn"}` }, term(one.verdict)), reliability(one.reliability),
      (one.reference_numbers ?? []).map((number) => cited(number, known_numbers.has(number)))),
    words(one.claim, "p", { class: "claim" }),
    one.reason && words(asWritten(one.reason), "p", { class: "small soft" }))));
}

function reliability(value) {
  if (known(value)) return h("span", { class: "small faint" }, t("reliability"), " ", meter(value), " ", confidence(value));
  return value && h("span", { class: "small faint" }, t("reliability"), t("colon"), term(value));
}

/** Words whose [n] lead to the evidence. */
export function withReferences(text, found) {
  const known_numbers = new Set((found ?? []).map((one) => one.reference_number));
  return text.split(/\[(\d{1,3})\]/).map((part, at) => (at % 2 ? cited(Number(part), known_numbers.has(Number(part))) : words(part)));
}

function cited(number, there) {
  if (!there) return h("span", { class: "cite" }, `[${number}]`);
  return h("button", { class: "cite", type: "button", "aria-label": t("cite.to", { number }), on: {
    click: () => {
      const target = document.getElementById(`evidence-${number}`);
      target?.scrollIntoView({ block: "center" });
      target?.focus();
    },
  } }, `[${number}]`);
}
