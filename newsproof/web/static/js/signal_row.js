// What a signal says, in the words and signs that all pages share.

import { h, icon, words } from "./dom.js";
import { explanation, t, term } from "./i18n.js";
import { previewed } from "./preview.js";
import { lastStatus } from "./status.js";
import { WITHDRAWN } from "./vocabulary.js";

const TONE = { buy: "rise", sell: "fall", observe: "" };
/** The gravest first: what has little room for flags shows these before others. */
const GRAVE = ["retracted", "refuted", "superseded", "spoofed_source", "injection_suspected", "denied_or_conflict", "scam"];
/** Signals of providers that are not the real ones. */
const PRETENDED = new Set(["offline", "simulated"]);
const rank = (flag) => (GRAVE.includes(flag) ? GRAVE.indexOf(flag) : GRAVE.length);
const gravestFirst = (flags) => [...flags].sort((one, other) => rank(one) - rank(other));
/** Each verdict by its word, its sign and its colour: no verdict is shown by colour alone. */
const VERDICT = {
  confirmed: ["good", ["M5 13l4 4L19 7"]],
  likely: ["accent", ["M3 13c3-5 6-5 9 0s6 5 9 0"]],
  unconfirmed: ["warn", ["M8.5 9a3.5 3.5 0 1 1 5 3.2c-1 .5-1.5 1.2-1.5 2.8", "M12 19.5v.1"]],
  stale: ["warn", ["M12 3a9 9 0 1 0 9 9", "M12 7v5l4 2"]],
  disputed: ["warn", ["M4 8h15l-4-4", "M20 16H5l4 4"]],
  refuted: ["bad", ["M6 6l12 12", "M18 6L6 18"]],
  unchecked: ["", ["M5 12h14"]],
};
const NO_VERDICT = ["", ["M5 12v.1", "M12 12v.1", "M19 12v.1"]];

export const isAsset = (asset) => Boolean(asset) && asset !== "UNKNOWN";

/** The ticker; where none was found that is said, in words. */
export function assetName(asset) {
  return h("strong", { class: `asset${isAsset(asset) ? "" : " none"}` }, isAsset(asset) ? words(asset) : t("asset.none"));
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
  return t("verdict.why", { verdict: term(verdict), why: uncheckedWords(reason) });
}

/** Why nothing was looked up; a failure with its class. */
export function uncheckedWords(reason) {
  const [kind, ...more] = reason.split(":");
  return [t(`unchecked.${kind}`), ...more.map(term)].join(t("colon"));
}

export function verdictTag(signal) {
  const [tone, drawn] = VERDICT[signal.verdict] ?? NO_VERDICT;
  return h("span", { class: `tag found ${tone}` }, icon(drawn), verdictWords(signal));
}

/** The verdict where there is room for a word; the reason is in the title. */
export function verdictMark(signal) {
  const [tone, drawn] = VERDICT[signal.verdict] ?? NO_VERDICT;
  return h("span", { class: `mark ${tone && `${tone}-ink`}`, title: verdictWords(signal) }, icon(drawn), signal.verdict ? term(signal.verdict) : t("verdict.none.short"));
}

/** What to do, or, where that is nothing, which way the claim would lean if it were true. */
export function actionMark({ action, direction, stage }) {
  if (action !== "observe") return h("strong", { class: `${TONE[action]}-ink` }, term(action));
  return direction && direction !== "neutral" && !WITHDRAWN.has(stage) ? t(`leans.${direction}`) : term(action);
}

/** What is unusual in a signal: that it was retracted, and the flags that should make a reader stop. What the verdict says already is left out. */
export function unusualTags({ stage, verdict, risk_flags: flags }) {
  const unusual = (one) => GRAVE.includes(one) || PRETENDED.has(one) || one.startsWith("degraded");
  const grave = gravestFirst(flagsBesideStrip(flags)).filter((one) => one !== stage && one !== verdict && unusual(one));
  return [stageTag(stage), grave.map((one) => h("span", { class: `tag ${GRAVE.includes(one) ? "bad" : "warn"}` }, flagName(one)))];
}

/** How far it got, where that is not to its end. */
export function stageTag(stage) {
  return stage !== "final" && h("span", { class: `tag ${WITHDRAWN.has(stage) ? "bad" : "warn"}` }, term(stage));
}

/** Stage and verdict as words. */
export const standing = (signal) => [signal.stage !== "final" && term(signal.stage), verdictWords(signal)].filter(Boolean).join(t("comma"));

/** A flag may carry its reason ("degraded:timeout"). */
const flagName = (flag) => String(flag).split(":").map(term).join(t("colon"));

/** The flags, without what the strip on top of the page says of all signals; of one from before the mode was changed they say it. */
export function flagsBesideStrip(flags) {
  const mode = lastStatus()?.mode;
  return (flags ?? []).filter((one) => !PRETENDED.has(one) || (mode !== undefined && one !== mode));
}

/** A flag, or why a result was not used, that says what it means when it is pointed at or focused. */
export function flagTag(flag, tone) {
  const meaning = explanation(String(flag).split(":")[0]);
  const button = h("button", { class: `tag explained ${tone}`, type: "button" }, flagName(flag));
  return previewed(button, () => h("p", { class: "small" }, meaning));
}

export function flagTags(flags) {
  if (!flags?.length) return null;
  return h("ul", { class: "tags", "aria-label": t("flags") }, gravestFirst(flags).map((flag) => h("li", {}, flagTag(flag, GRAVE.includes(flag) ? "bad" : "warn"))));
}

/** How many sources support the claim, beside how many independent ones speak of it. */
export function sourceCounts({ supporting_sources: support, independent_sources: independent }) {
  const known = support !== null && support !== undefined;
  return [known && t("sources.supporting", { n: support }), t("sources.independent", { n: independent ?? 0 })].filter(Boolean).join(" · ");
}
