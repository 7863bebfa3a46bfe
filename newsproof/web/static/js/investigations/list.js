// The investigations so far, newest first. While one is running the list is looked at again.

import { getJson } from "../api.js";
import { h, replace, roving, words } from "../dom.js";
import { day } from "../format.js";
import { t, term } from "../i18n.js";
import { empty, failed, loading } from "../states.js";
import { agoTime } from "../times.js";

const AGAIN_MS = 5_000;

export async function listInvestigations(place, signal, { again = false } = {}) {
  const head = h("h2", {}, t("inquiry.all"));
  if (!again) replace(place, head, loading());
  try {
    const { items } = await getJson("investigations", { limit: 100 }, signal);
    if (signal.aborted) return;
    const shown = JSON.stringify(items);
    if (place.dataset.shown !== shown) replace(place, head, items.length ? listed(items) : empty(t("inquiry.none"), t("inquiry.none.hint")));
    place.dataset.shown = shown;
    if (items.some((one) => one.state === "running")) setTimeout(() => signal.aborted || listInvestigations(place, signal, { again: true }), AGAIN_MS);
  } catch (error) {
    if (!signal.aborted) replace(place, head, failed(error, () => listInvestigations(place, signal)));
  }
}

const DOTS = { running: "busy", failed: "lost", finished: "on" };
export const stateDot = (state) => h("span", { class: `state-dot ${DOTS[state] ?? ""}` }, term(state));

function listed(items) {
  const list = h("ul", { class: "inquiries card" }, items.map((one) => h("li", {}, h("a", { class: "inquiry", href: `/investigations/${encodeURIComponent(one.investigation_id)}` },
    words(one.question, "span", { class: "what" }), one.watch && h("span", { class: "tag" }, t("inquiry.by_watch")), h("span", { class: "when small faint" }, t("inquiry.of", { at: day(one.as_of) })), stateDot(one.state), agoTime(one.asked_at)))));
  roving(list, ".inquiry");
  return list;
}
