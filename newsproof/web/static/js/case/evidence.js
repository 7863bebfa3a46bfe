// What was looked up, what was found, and what the critique made of it claim by claim.

import { meter } from "../drawings.js";
import { external, h, words } from "../dom.js";
import { confidence, day, known, utc } from "../format.js";
import { t, term } from "../i18n.js";

const STANCE = { supports: "up", denies: "down", hedges: "warn", unrelated: "" };
const VERDICT = { confirmed: "up", supported: "up", verified: "up", refuted: "down", denied: "down", contradicted: "down", unverified: "warn", uncertain: "warn" };

export function searches(events) {
  const all = events.filter((one) => one.accepted && one.event.type === "newsproof.search_completed").flatMap((one) => one.event.outcomes);
  if (all.length === 0) return h("p", { class: "hint" }, t("case.searches.none"));
  return h("ul", { class: "searches" }, all.map((one) => h("li", {},
    h("span", { class: "tag" }, words(term(one.provider))), " ",
    words(one.query), " ",
    one.failure
      ? h("span", { class: "tag down" }, words(`${one.failure.kind}: ${one.failure.message}`))
      : h("span", { class: "small faint" }, t("searches.hits", { n: one.hits }), one.cached ? ` · ${t("searches.cached")}` : ""))));
}

export function evidence({ findings, timeline }) {
  const { references: found = [], dropped = [] } = findings ?? {};
  // The last search is told by what all searches found.
  const told = timeline.findLast((one) => one.phase === "searched")?.thought;
  return h("div", {}, told && words(told, "p", { class: "soft findings" }),
    found.length === 0 ? h("p", { class: "hint" }, t("case.evidence.none")) : h("ol", { class: "evidence" }, found.map(piece)),
    dropped.length > 0 && h("details", { class: "dropped" }, h("summary", {}, t("case.dropped", { n: dropped.length })),
      h("ul", {}, dropped.map((one) => h("li", {}, h("span", { class: "tag warn" }, term(one.reason)), " ", external(one.url, one.title || one.url))))));
}

function piece(one) {
  const stance = one.stance ?? "supports"; // What is usual is not in the JSON.
  const marks = [
    h("li", { class: `tag ${STANCE[stance] ?? ""}` }, term(stance)),
    one.official && h("li", { class: "tag accent" }, t("official")),
    one.independent ? h("li", { class: "tag up" }, t("independent")) : h("li", { class: "tag" }, t("dependent")),
    one.source_credibility !== "unknown" && h("li", { class: "tag" }, t("credibility"), " ", term(one.source_credibility)),
    h("li", { class: "tag" }, t("quality", { score: Math.round(one.quality_score) })),
    one.published_at && h("li", { class: "tag", title: utc(one.published_at) }, day(one.published_at)),
  ];
  return h("li", { id: `evidence-${one.reference_number}`, tabindex: -1 },
    h("span", { class: "number" }, `[${one.reference_number}]`),
    h("div", {}, h("p", {}, external(one.url, one.title || one.url)), h("ul", { class: "tags", "aria-label": t("marks") }, marks),
      one.snippet && words(one.snippet, "p", { class: "small soft snippet" })));
}

export function critique(claims, found) {
  if (claims.length === 0) return h("p", { class: "hint" }, t("case.critique.none"));
  const known_numbers = new Set(found.map((one) => one.reference_number));
  return h("ul", { class: "claims" }, claims.map((one) => h("li", { class: "card" },
    h("div", { class: "row" }, h("span", { class: `tag ${VERDICT[one.verdict] ?? "warn"}` }, term(one.verdict)), reliability(one.reliability),
      (one.reference_numbers ?? []).map((number) => cited(number, known_numbers.has(number)))),
    words(one.claim, "p", { class: "claim" }),
    one.reason && words(one.reason, "p", { class: "small soft" }))));
}

function reliability(value) {
  if (known(value)) return h("span", { class: "small faint" }, t("reliability"), " ", meter(value), " ", confidence(value));
  return value && h("span", { class: "small faint" }, t("reliability"), t("colon"), term(value));
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
