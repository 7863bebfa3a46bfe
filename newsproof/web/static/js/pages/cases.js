// Cases: the list of them, and one of them whole.

import { getJson, request } from "../api.js";
import { h, replace, roving, words } from "../dom.js";
import { confidence } from "../format.js";
import { t, term } from "../i18n.js";
import { showCase } from "../case/story.js";
import { verdictMark } from "../signal_row.js";
import { follow } from "../sse.js";
import { empty, failed, fill, loading, publishLink } from "../states.js";
import { agoTime } from "../times.js";
import { EVENT_TYPES } from "../vocabulary.js";

const PAGE = 25;
const SETTLED_MS = 400; // Several events of one moment are one look.

export function mount(main, place) {
  if (place.rest[0]) showOne(main, place);
  else showList(main, place);
}

/** `rest`: the case's id, or another name of it, which may have slashes. */
function showOne(main, { rest, signal, setTitle }) {
  setTitle(t("case.title"));
  let id = rest.join("/");
  const body = h("div", {});
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("case.title")), h("a", { href: "/cases" }, t("case.all"))), body);
  const load = () => getJson(`cases/${encodeURIComponent(id)}`, {}, signal);
  fill(body, async () => {
    const found = await load();
    if (found.case_id !== id) history.replaceState(null, "", `/case/${encodeURIComponent(id = found.case_id)}`);
    if (found.case.status === "open") watch(id, signal, async () => {
      const now = await load();
      body.replaceChildren(showCase(now, signal));
      return now.case.status !== "open";
    });
    return showCase(found, signal);
  }, signal);
}

/** Look again whenever the live stream speaks of this case, until `look` says that it has ended. */
function watch(caseId, gone, look) {
  const line = new AbortController();
  gone.addEventListener("abort", () => line.abort());
  let waiting = null;
  const soon = () => {
    waiting ??= setTimeout(async () => {
      waiting = null;
      try {
        if (await look()) line.abort();
      } catch {
        // What is shown stays; the next event, or a reload, tries again.
      }
    }, SETTLED_MS);
  };
  follow((lastId, attempt, signal) => request("stream", { signal, headers: lastId === null ? {} : { "Last-Event-ID": lastId } }), {
    signal: line.signal,
    // What happened between the reading and the opening of the stream is seen by one look more.
    onState: (now) => now === "open" && soon(),
    onEvent: ({ event, data }) => {
      if (event === "gap" || (event === "case" && data.includes(caseId))) soon();
    },
  }).catch(() => {});
}

function showList(main, { query, signal, setTitle }) {
  setTitle(t("nav.cases"));
  const list = h("ol", { class: "cases", "aria-label": t("nav.cases") });
  const message = h("div", {});
  const more = h("button", { class: "button", type: "button", hidden: true }, t("older"));
  const settle = roving(list, ".case-link");
  let line = null;
  let next = null;

  async function load(before) {
    if (before === null) {
      line?.abort();
      line = new AbortController();
      list.replaceChildren();
      more.hidden = true;
      message.replaceChildren(loading());
    }
    const mine = line;
    try {
      const found = await getJson("cases", { ...Object.fromEntries(query), limit: PAGE, before }, mine.signal);
      if (mine.signal.aborted) return;
      const rows = found.items.map(caseRow);
      list.append(...rows);
      next = found.next;
      more.hidden = !next;
      const filtered = [...query.keys()].length > 0;
      replace(message, list.childElementCount === 0 && empty(t(filtered ? "cases.none" : "cases.empty"), null, !filtered && publishLink()));
      settle();
      // The focus was on the button below: reading continues at the first new row.
      if (before !== null) rows[0]?.querySelector(".case-link").focus();
    } catch (error) {
      if (!mine.signal.aborted) message.replaceChildren(failed(error, () => load(before)));
    }
  }

  more.addEventListener("click", () => load(next));
  signal.addEventListener("abort", () => line?.abort());
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("cases.title")), h("p", {}, t("cases.lead"))),
    filters(query, () => load(null)), message, list, h("p", { class: "row more" }, more));
  load(null);
}

function filters(query, changed) {
  const set = (name) => (event) => {
    const value = event.target.value.trim();
    if (value) query.set(name, name === "asset" ? value.toUpperCase() : value);
    else query.delete(name);
    const text = query.toString();
    history.replaceState(null, "", `/cases${text ? `?${text}` : ""}`);
    changed();
  };
  const select = (name, options) => h("select", { class: "input", name, on: { change: set(name) } },
    h("option", { value: "" }, t("any")), options.map((one) => h("option", { value: one, selected: one === query.get(name) }, term(one))));
  const input = (name, most) => h("input", { class: "input", name, maxlength: most, autocomplete: "off", value: query.get(name) ?? "", on: { change: set(name) } });
  return h("form", { class: "filters", role: "search", "aria-label": t("filters"), on: { submit: (e) => e.preventDefault() } },
    h("label", { class: "field" }, h("span", {}, t("cases.words")), input("q", 200)),
    h("label", { class: "field" }, h("span", {}, t("asset")), input("asset", 20)),
    h("label", { class: "field" }, h("span", {}, t("event_type")), select("event_type", EVENT_TYPES)),
    h("label", { class: "field" }, h("span", {}, t("cases.state")), select("state", ["open", "ended"])));
}

function caseRow(one) {
  return h("li", { class: "case-row" },
    h("div", { class: "case-what" },
      h("a", { class: "case-link", href: `/case/${encodeURIComponent(one.case_id)}` }, words(one.text || one.case_id)),
      h("div", { class: "tags meta" },
        h("span", { class: `tag ${one.status === "open" ? "accent" : ""}` }, term(one.status)),
        one.withdrawn && h("span", { class: "tag bad" }, term(one.withdrawn)),
        one.asset && h("span", { class: "tag" }, words(one.asset)), one.event_type && h("span", { class: "tag" }, term(one.event_type)),
        one.source && h("span", { class: "tag" }, words(one.source)))),
    h("div", { class: "case-end" },
      h("div", { class: "row" }, one.verdict && verdictMark(one), typeof one.confidence === "number" && h("strong", {}, confidence(one.confidence))),
      agoTime(one.received_at)));
}
