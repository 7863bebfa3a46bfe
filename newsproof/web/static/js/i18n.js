// The texts of the page in English and Chinese. Which one: what was chosen here before, else what the browser asks for.

import en from "./texts/en.js";
import zh from "./texts/zh.js";
import { remembered, remember } from "./memory.js";

const TEXTS = { en, zh };
let current = remembered("language") ?? ((navigator.languages ?? [navigator.language])[0] ?? "en").toLowerCase();
current = current.startsWith("zh") ? "zh" : "en";

export const language = () => current;

export function chooseLanguage(name) {
  current = name === "zh" ? "zh" : "en";
  remember("language", current);
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
}

/** The text of that key with its {places} filled; of a count, the form that the language wants ("key.one"). */
export function t(key, places = {}) {
  const texts = TEXTS[current];
  const form = "n" in places ? `${key}.${new Intl.PluralRules(current).select(places.n)}` : key;
  const text = texts[form] ?? texts[`${key}.other`] ?? texts[key] ?? TEXTS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in places ? String(places[name]) : whole));
}

/** What a field says in the reader's language, if the server sends it beside the field itself. */
export const saidIn = (of, field) => of[`${field}_${current}`] || of[field];

/** The summary in the reader's language, where somebody wrote it; else in that of the news. */
export const summaryOf = (signal) => signal[`summary_${current}`] || signal.summary;

/** Words of a model, a server or a run: to Chinese readers those in another language are named as such. */
export const asWritten = (text) => (current === "zh" && text && !/\p{Script=Han}/u.test(text) ? t("as_written", { text }) : text);

/** A word of the domain (a flag, a verdict, a type of event); a word without a translation is shown as it is, made readable. */
export function term(word) {
  const plain = String(word ?? "");
  return TEXTS[current][`term.${plain}`] ?? plain.replaceAll("_", " ");
}

/** What a flag means; of a word that a model chose itself, that it did. */
export const explanation = (flag) => TEXTS[current][`flag.${flag}`] ?? TEXTS[current]["flag.other"];
