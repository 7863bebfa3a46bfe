// Loading, empty, error: states of their own, each of which says what to do next.

import { h, icon, withCode, words } from "./dom.js";
import { asWritten, t } from "./i18n.js";
import { nextStatus } from "./status.js";

const QUIET = ["M4 18h16", "M4 14l4-3 4 2 4-5 4 3"];

export function loading() {
  return h("div", { class: "skeleton", role: "status" }, h("p", { class: "unseen" }, t("loading")), h("span"), h("span"), h("span"));
}

export function empty(text, hint = null, action = null) {
  return h("div", { class: "state" }, icon(QUIET), h("p", {}, text), hint && h("p", { class: "hint" }, hint), action);
}

/** What an empty page has to do: news. */
export const publishLink = () => h("a", { class: "button", href: "/publish" }, t("nothing.publish"));

/** What a failed request says, as an alert, with a button that tries again; what could not be reached is tried again by itself, too. */
export function failed(error, retry = null) {
  const [said, todo] = explained(error, retry !== null);
  const place = h("div", { class: "notice error", role: "alert" }, words(withCode(said), "p"), todo && words(withCode(todo), "p"),
    retry && h("p", {}, h("button", { class: "button tiny", type: "button", on: { click: retry } }, t("retry"))));
  if (retry && error?.message === "unreachable") nextStatus(() => place.isConnected && retry());
  return place;
}

export function explained(error, again = false) {
  if (error?.message === "unreachable") return [t("error.unreachable"), t(`error.unreachable.${again ? "again" : "then"}`)];
  return [asWritten(error?.message) || t("error.unknown"), asWritten(error?.todo || "")];
}

/** Show `loading` in a place, then what `load` makes, or why it could not. */
export async function fill(place, load, signal) {
  place.replaceChildren(loading());
  try {
    const made = await load();
    if (!signal.aborted) place.replaceChildren(made);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    place.replaceChildren(failed(error, error.passing === false ? null : () => fill(place, load, signal)));
  }
}

const queue = [];
let speaking = false;

/** Say something politely to a screen reader; several at once are said one after another. */
export function announce(text) {
  queue.push(text);
  if (queue.length > 3) queue.splice(0, queue.length - 3);
  if (!speaking) speak();
}

function speak() {
  const text = queue.shift();
  speaking = text !== undefined;
  if (!speaking) return;
  document.getElementById("announcer").textContent = text;
  setTimeout(speak, 1200);
}

/** Say at once that something went wrong. */
export function alarm(text) {
  const place = document.getElementById("alerts");
  place.textContent = "";
  place.textContent = text;
}
