// Watches: subjects that are investigated repeatedly. The server says which commands each accepts, and explains a refusal.

import { getJson, postJson } from "../api.js";
import { h, replace, words } from "../dom.js";
import { t, term } from "../i18n.js";
import { announce, empty, failed, loading } from "../states.js";
import { stackedTable } from "../tables.js";
import { agoTime } from "../times.js";

const COMMANDS = { active: ["pause", "end"], paused: ["resume", "end"] };

export async function listWatches(place, signal) {
  const head = [h("h2", {}, t("watches")), h("p", { class: "hint" }, t("watches.lead"))];
  if (!place.childElementCount) replace(place, head, loading());
  try {
    const { items } = await getJson("watches", {}, signal);
    if (!signal.aborted) replace(place, head, items.length ? table(items, place, signal) : empty(t("watches.none"), t("watches.none.hint")));
  } catch (error) {
    if (!signal.aborted) replace(place, head, failed(error, () => listWatches(place, signal)));
  }
}

function table(items, place, signal) {
  const trouble = h("div", {});
  const heads = ["subject", "rhythm", "state", "fired", "next", "last", "do"].map((name) => [t(`watch.${name}`), name === "fired"]);
  const change = async (one, command) => {
    try {
      await postJson(`watches/${encodeURIComponent(one.id)}/${command}`, undefined, {}, signal);
      announce(t(`watch.${command}.done`));
      await listWatches(place, signal);
      place.querySelector(`[data-watch="${CSS.escape(one.id)}"] button, h2`)?.focus();
    } catch (error) {
      if (!signal.aborted) replace(trouble, failed(error));
    }
  };
  return h("div", {}, trouble, stackedTable(t("watches"), heads, items.map((one) => h("tr", { data: { watch: one.id } }, h("th", { scope: "row" }, words(one.subject), one.note && words(one.note, "p", { class: "small faint" })),
      h("td", {}, one.on_news ? t("inquiry.on_news") : rhythm(one.every_s)), h("td", {}, h("span", { class: `state-dot ${one.state === "active" ? "on" : ""}` }, term(one.state))),
      h("td", { class: "n" }, String(one.fired)), h("td", {}, one.next_due_at && one.state === "active" ? agoTime(one.next_due_at) : "–"), h("td", {}, result(one.last_result)),
      h("td", {}, h("div", { class: "row" }, (COMMANDS[one.state] ?? []).map((command) => h("button", { class: "button tiny quiet", type: "button", "aria-label": `${t(`watch.${command}`)} ${one.subject}`, on: { click: () => change(one, command) } }, t(`watch.${command}`)))))))));
}

const rhythm = (seconds) => (seconds % 3600 === 0 ? t("inquiry.every", { n: seconds / 3600 }) : t("inquiry.every_minutes", { n: Math.round(seconds / 60) }));

function result(last) {
  if (!last) return "–";
  const said = last.new === null || last.new === undefined ? term(last.state) : t("watch.new", { n: last.new });
  return h("a", { href: `/investigations/${encodeURIComponent(last.investigation_id)}` }, said);
}
