// The brief: what is established, what is disputed, what is new, each sentence with the pages that support it.

import { external, h, words } from "../dom.js";
import { day } from "../format.js";
import { t, term } from "../i18n.js";
import { citation } from "../preview.js";

export function brief(data, id) {
  const pages = new Map((data.references ?? []).map((one) => [one.number, one]));
  const go = (number) => {
    const place = document.getElementById(`page-${id}-${number}`);
    place?.scrollIntoView({ block: "center" });
    place?.focus();
  };
  const cited = (numbers) => (numbers ?? []).map((number) => citation(number, (n) => preview(pages.get(n), data.claims ?? []), go));
  const sentences = (name) => data[name]?.length > 0 && section(t(`brief.${name}`), data[name].map((one) => h("li", {}, words(one.text), " ", verdict(data.claims?.[one.claim]?.verdict), " ", byWords(data.claims?.[one.claim]), cited(one.references))), name);
  const nothing = !["established", "disputed", "unsettled"].some((name) => data[name]?.length > 0);
  return h("article", { class: "brief card", "aria-label": t("brief") },
    data.path === "partial" && h("div", { class: "notice warn small" }, h("p", {}, t("brief.partial"))),
    nothing && h("p", {}, t(data.provider_mode === "offline" ? "brief.not_in_corpus" : "brief.nothing")),
    ["established", "disputed", "unsettled"].map(sentences), changes(data, cited),
    data.not_found?.length > 0 && section(t("brief.not_found"), data.not_found.map((one) => words(one, "li")), "not-found"),
    data.not_done?.length > 0 && section(t("brief.not_done"), data.not_done.map((one) => words(one, "li")), "not-done"),
    judged(data.claims ?? [], cited), references([...pages.values()], id, Boolean(data.previous)));
}

const section = (title, items, kind) => h("section", { class: `brief-part ${kind}` }, h("h2", {}, title), h("ul", {}, items));

function changes(data, cited) {
  if (!data.previous) return null;
  const link = h("a", { href: `/investigations/${encodeURIComponent(data.previous)}` }, day(data.previous_as_of));
  const told = (one) => {
    const claim = data.claims?.[one.claim] ?? {};
    const moved = one.kind === "verdict_changed" && [verdict(one.before), " → ", verdict(claim.verdict), " "];
    return h("li", {}, h("span", { class: "tag accent" }, t(`change.${one.kind}`)), " ", moved, words(claim.claim ?? ""), " ", cited(one.references));
  };
  return h("section", { class: "brief-part new-since" }, h("h2", {}, t("brief.new_since"), " ", link), data.new_since?.length > 0 ? h("ul", {}, data.new_since.map(told)) : h("p", { class: "soft" }, t("brief.nothing_new")));
}

const TONES = { confirmed: "good", likely: "good", refuted: "bad", disputed: "warn" };
const verdict = (name) => h("span", { class: `tag ${TONES[name] ?? ""}` }, term(name || "unknown"));

/** A verdict without a quote: no critic read the pages. */
const byWords = (claim) => claim && !claim.evidence?.some((one) => one.quote) && h("span", { class: "small faint" }, t("brief.by_words"), " ");

function judged(claims, cited) {
  if (claims.length === 0) return null;
  return h("details", { class: "brief-claims" }, h("summary", {}, t("brief.claims")), h("ul", {}, claims.map((one) => h("li", {},
    h("p", {}, verdict(one.verdict), " ", words(one.claim), " ", h("span", { class: "small faint" }, t("brief.supporting", { n: one.supporting_sources ?? 0 }))),
    h("ul", { class: "stances small" }, (one.evidence ?? []).map((page) => h("li", {}, cited([page.number]), " ", term(page.stance), page.quote && [t("colon"), words(`“${page.quote}”`)])))))));
}

/** `later`: an earlier brief was there, so that pages can be new. */
function references(pages, id, later) {
  if (pages.length === 0) return null;
  return h("section", { class: "sources-list" }, h("h2", {}, t("brief.references")), h("ol", {}, pages.map((one) => h("li", { id: `page-${id}-${one.number}`, tabindex: -1 }, h("span", { class: "number" }, `[${one.number}]`),
    h("div", {}, external(one.url, one.title), h("span", { class: "small faint" }, [one.published_at ? day(one.published_at) : t("brief.undated"), one.official && term("official"), later && one.first_seen && t("brief.first_seen")].filter(Boolean).join(" · ")))))));
}

/** What the preview of a citation shows: the words quoted from the page, else what was read of it. */
function preview(page, claims) {
  if (!page) return null;
  const quotes = claims.flatMap((claim) => claim.evidence ?? []).filter((one) => one.number === page.number && one.quote).map((one) => `“${one.quote}”`);
  const read = [...new Set(String(page.passage ?? "").split("\n"))].join(" ");
  return { title: page.title, url: page.url, kind: "page", preview: quotes.length ? [...new Set(quotes)].join(" ") : read.slice(0, 300), observed_at: page.published_at };
}
