// What a signal says, in the words and signs that all pages share.

import { h, icon, words } from "./dom.js";
import { t, term } from "./i18n.js";
import { lastStatus } from "./status.js";
import { WITHDRAWN } from "./vocabulary.js";

const TONE = { buy: "up", sell: "down", observe: "" };
/** The gravest first: what has little room for flags shows these before others. */
const GRAVE = ["retracted", "refuted", "superseded", "spoofed_source", "injection_suspected", "denied_or_conflict", "scam"];
/** Signals of providers that are not the real ones. */
const PRETENDED = new Set(["offline", "simulated"]);
/** Each verdict by its word, its sign and its colour: none of them is told by the colour alone. */
const VERDICT = {
  confirmed: ["up", ["M5 13l4 4L19 7"]],
  likely: ["accent", ["M3 13c3-5 6-5 9 0s6 5 9 0"]],
  unconfirmed: ["warn", ["M8.5 9a3.5 3.5 0 1 1 5 3.2c-1 .5-1.5 1.2-1.5 2.8", "M12 19.5v.1"]],
  stale: ["warn", ["M12 3a9 9 0 1 0 9 9", "M12 7v5l4 2"]],
  disputed: ["warn", ["M4 8h15l-4-4", "M20 16H5l4 4"]],
  refuted: ["down", ["M6 6l12 12", "M18 6L6 18"]],
  unchecked: ["", ["M5 12h14"]],
};
const NO_VERDICT = ["", ["M5 12v.1", "M12 12v.1", "M19 12v.1"]];

/** The ticker; where none was found that is said, in words. */
export function assetName(asset) {
  const found = asset && asset !== "UNKNOWN";
  return h("strong", { class: `asset${found ? "" : " none"}` }, found ? words(asset) : t("asset.none"));
}

/** What to do; where that is nothing, also what the claim would mean if it were true. */
export function actionTag({ action, direction }) {
  const meant = action === "observe" && direction && direction !== "neutral";
  return h("span", { class: `tag ${TONE[action] ?? ""}` }, term(action), meant && ` · ${term(direction)}`);
}

/** The verdict in words; of what was not checked, with the reason. Signals of before there were verdicts have none. */
export function verdictWords({ verdict, unchecked_reason: reason }) {
  if (!verdict) return t("verdict.none");
  if (!reason) return term(verdict);
  const [kind, ...more] = reason.split(":");
  return t("verdict.why", { verdict: term(verdict), why: [t(`unchecked.${kind}`), ...more.map(term)].join(t("colon")) });
}

export function verdictTag(signal) {
  const [tone, drawn] = VERDICT[signal.verdict] ?? NO_VERDICT;
  return h("span", { class: `tag found ${tone}` }, icon(drawn), verdictWords(signal));
}

/** The verdict where there is room for a word; the reason stands in the title. */
export function verdictMark(signal) {
  const [tone, drawn] = VERDICT[signal.verdict] ?? NO_VERDICT;
  return h("span", { class: `mark ${tone && `${tone}-ink`}`, title: verdictWords(signal) }, icon(drawn), signal.verdict ? term(signal.verdict) : t("verdict.none.short"));
}

/** What to do, or, where that is nothing, which way the claim would lean if it were true. */
export function actionMark({ action, direction, stage }) {
  if (action !== "observe") return h("strong", { class: `${TONE[action]}-ink` }, term(action));
  return direction && direction !== "neutral" && !WITHDRAWN.has(stage) ? t(`leans.${direction}`) : term(action);
}

/** What is unusual in a signal: that it was taken back, and the flags that should stop a hand. What the verdict says already is left out. */
export function unusualTags({ stage, verdict, risk_flags: flags }) {
  const unusual = (one) => GRAVE.includes(one) || PRETENDED.has(one) || one.startsWith("degraded");
  const grave = flagsBesideStrip(flags).filter((one) => one !== stage && one !== verdict && unusual(one));
  return [stageTag(stage), grave.map((one) => h("span", { class: `tag ${GRAVE.includes(one) ? "down" : "warn"}` }, flagName(one)))];
}

/** How far it got, where that is not to its end. */
export function stageTag(stage) {
  return stage !== "final" && h("span", { class: `tag ${WITHDRAWN.has(stage) ? "down" : "warn"}` }, term(stage));
}

/** Stage and verdict as words. */
export const standing = (signal) => [signal.stage !== "final" && term(signal.stage), verdictWords(signal)].filter(Boolean).join(t("comma"));

/** A flag may carry its reason ("degraded:timeout"). */
const flagName = (flag) => String(flag).split(":").map(term).join(t("colon"));

/** The flags without the one that the strip on top of the page says of all signals. */
export const flagsBesideStrip = (flags) => (flags ?? []).filter((one) => one !== lastStatus()?.mode);

export function flagTags(flags, most = Infinity) {
  if (!flags?.length) return null;
  const rank = (flag) => (GRAVE.includes(flag) ? GRAVE.indexOf(flag) : GRAVE.length);
  const ordered = [...flags].sort((one, other) => rank(one) - rank(other));
  const shown = ordered.slice(0, most).map((flag) => h("li", { class: `tag ${GRAVE.includes(flag) ? "down" : "warn"}` }, flagName(flag)));
  const rest = ordered.slice(most).map(flagName).join(t("comma"));
  return h("ul", { class: "tags", "aria-label": t("flags") }, shown,
    rest && h("li", { class: "tag", title: rest }, h("span", { "aria-hidden": "true" }, `+${ordered.length - shown.length}`), h("span", { class: "unseen" }, rest)));
}

/** How many sources support the claim, beside how many independent ones speak of it. */
export function sourceCounts({ supporting_sources: support, independent_sources: independent }) {
  const known = support !== null && support !== undefined;
  return [known && t("sources.supporting", { n: support }), t("sources.independent", { n: independent ?? 0 })].filter(Boolean).join(" · ");
}
