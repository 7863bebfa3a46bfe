// Dead letters: how many wait with each reason, and those of the reason that is open, each with what was wrong; requeueing.

import { getJson, postJson } from "../api.js";
import { h, replace, words } from "../dom.js";
import { number } from "../format.js";
import { t, term } from "../i18n.js";
import { announce, failed, loading } from "../states.js";
import { stackedTable } from "../tables.js";
import { agoTime } from "../times.js";

const PAGE = 50;

/** `place` is the section; `show` takes the counts of a new look. `changed` is called when letters were requeued. */
export function letterTables(signal, changed) {
  const told = h("div", { class: "ops-told" });
  const reasons = h("div", {});
  const list = h("div", { class: "ops-list" });
  const place = h("section", { class: "ops-letters", hidden: true, "aria-label": t("ops.letters") }, h("h2", {}, t("ops.letters")), h("p", { class: "hint" }, t("ops.letters.hint")), told, reasons, list);
  let counts = null;
  let open = null; // the reason whose letters are listed
  let items = [];
  let drawn = "";

  function show(found) {
    const before = counts?.by_reason?.find((one) => one.reason === open);
    counts = found;
    place.hidden = false;
    draw();
    const now = found?.by_reason.find((one) => one.reason === open);
    if (open !== null && now && (before?.count !== now.count || before?.waiting !== now.waiting)) load(Math.max(PAGE, items.length));
  }

  function draw() {
    const next = JSON.stringify([counts, open, document.documentElement.lang]);
    if (next === drawn) return;
    drawn = next;
    if (counts === null || counts.by_reason.length === 0) {
      replace(reasons, h("p", { class: "hint" }, t(counts === null ? "ops.letters.unknown" : "ops.letters.none")));
      return;
    }
    const focus = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const figure = (value) => h("td", { class: "n" }, value);
    const rows = counts.by_reason.map((one) => h("tr", {}, h("th", { scope: "row" }, words(term(one.reason))),
      figure(number(one.waiting)), figure(number(one.count)), figure(agoTime(one.newest_at)),
      h("td", {}, h("div", { class: "row" }, button(t(open === one.reason ? "ops.hide" : "ops.show"), () => toggle(one.reason), { key: `show ${one.reason}`, expanded: open === one.reason, label: t(open === one.reason ? "ops.hide.of" : "ops.show.of", { reason: term(one.reason) }) }),
        one.waiting > 0 && button(t("ops.requeue_all", { n: one.waiting }), () => ask(one), { key: `all ${one.reason}`, label: t("ops.requeue_all.of", { n: one.waiting, reason: term(one.reason) }) })))));
    replace(reasons, stackedTable(t("ops.letters.reasons"), [[t("ops.reason")], [t("ops.waiting"), 1], [t("ops.all"), 1], [t("ops.newest"), 1], [t("ops.act")]], rows));
    focusOn(place, focus);
  }

  /** All of a reason are sent after one more press, and the focus is on "no": Enter twice in a row sends nothing. */
  function ask(one) {
    const key = `all ${one.reason}`;
    const no = () => {
      replace(told);
      focusOn(place, key);
    };
    replace(told, h("div", { class: "notice warn row", role: "group", "aria-label": t("ops.requeue_all.of", { n: one.waiting, reason: term(one.reason) }) },
      h("span", {}, t("ops.requeue_all.sure", { n: one.waiting, reason: term(one.reason) })),
      button(t("ops.requeue_all.no"), no, { key: "no" }), button(t("ops.requeue_all.yes", { n: one.waiting }), () => requeue({ reason: one.reason }, key), { key: "yes", main: true })));
    focusOn(told, "no");
  }

  function toggle(reason) {
    open = open === reason ? null : reason;
    items = [];
    draw();
    if (open === null) return list.replaceChildren();
    list.replaceChildren(loading());
    load(PAGE);
  }

  async function load(limit, offset = 0) {
    const reason = open;
    try {
      const found = await getJson("dead-letters", { reason, limit: Math.min(limit, 500), offset }, signal);
      if (reason !== open || signal.aborted) return;
      items = offset ? [...items, ...found.items] : found.items;
      drawList(found.count);
    } catch (error) {
      if (error.name !== "AbortError" && !signal.aborted) list.replaceChildren(failed(error, () => load(limit, offset)));
    }
  }

  function drawList(count) {
    const at = [...list.querySelectorAll("[data-key]")].indexOf(document.activeElement);
    const focus = at < 0 ? null : document.activeElement.dataset.key;
    const rows = items.map((one) => h("li", {},
      h("div", { class: "row" }, h("code", {}, one.id), agoTime(one.at), one.case && h("a", { class: "small", href: `/case/${encodeURIComponent(one.case)}` }, t("ops.case"))),
      h("div", { class: "small" }, words(one.why, "p"), one.preview && words(one.preview, "p", { class: "faint original" })),
      one.standing === "waiting" ? button(t("ops.requeue"), () => requeue({ ids: [one.id] }, `one ${one.id}`), { key: `one ${one.id}`, label: t("ops.requeue.of", { id: one.id }) }) : h("span", { class: "small faint" }, t(`ops.standing.${one.standing}`))));
    replace(list, h("p", { class: "hint" }, t("ops.listed", { shown: number(items.length), n: count, reason: term(open) })), h("ul", { class: "letters" }, rows),
      items.length < count && button(t("older"), () => load(PAGE, items.length), { key: "older" }));
    // What was sent has no button any more: the focus goes to the one that took its place.
    if (at >= 0 && !focusOn(list, focus)) [...list.querySelectorAll("[data-key]")].slice(0, at + 1).at(-1)?.focus();
  }

  async function requeue(wanted, key) {
    replace(told, h("p", { class: "notice" }, t("ops.requeueing")));
    try {
      const done = await postJson("dead-letters/requeue", wanted, {}, signal);
      const skipped = Object.values(done.skipped).length;
      const text = [t("ops.requeued", { n: done.requeued.length }), skipped ? t("ops.skipped", { n: skipped }) : "", done.left ? t("ops.left", { n: done.left }) : ""].filter(Boolean).join(" ");
      replace(told, h("p", { class: "notice" }, text));
      announce(text);
      await changed();
      // The button is gone with what it sent: the focus moves to the nearest element, not to the top of the page.
      if (!focusOn(place, key)) place.querySelector("[data-key]")?.focus();
    } catch (error) {
      if (error.name !== "AbortError" && !signal.aborted) told.replaceChildren(failed(error));
    }
  }

  return { place, show };
}

function focusOn(place, key) {
  const found = key && [...place.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  found?.focus();
  return Boolean(found);
}

function button(text, click, { key, label = null, expanded = null, main = false }) {
  return h("button", { class: `button tiny${main ? " main" : ""}`, type: "button", "aria-label": label, "aria-expanded": expanded === null ? null : String(expanded), data: { key }, on: { click } }, text);
}
