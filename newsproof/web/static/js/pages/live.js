// Live: signals as they come, and the cases that are being worked on.

import { getJson, request } from "../api.js";
import { h, replace, roving, words } from "../dom.js";
import { confidence } from "../format.js";
import { t, term } from "../i18n.js";
import { signalRow } from "../signal_row.js";
import { follow } from "../sse.js";
import { announce, empty, failed, loading } from "../states.js";
import { EVENT_TYPES } from "../vocabulary.js";

const KEPT = 200; // Rows; older ones are behind "show older".
const PAGE = 50;
const SAID_EVERY_MS = 4_000;

export function mount(main, { query, signal: gone, setTitle }) {
  setTitle(t("nav.live"));
  const state = h("span", { class: "state-dot busy" }, t("stream.connecting"));
  const body = h("div", { class: "live" });
  const list = h("ol", { class: "signals", "aria-label": t("live.list") });
  const open = h("div", { class: "open-cases" });
  const fresh = h("button", { class: "button main fresh", type: "button", hidden: true });
  const older = h("button", { class: "button", type: "button", hidden: true }, t("older"));
  const message = h("div", {});
  main.append(
    h("div", { class: "page-head" }, h("h1", {}, t("live.title")), h("p", {}, t("live.lead")), state),
    filters(query, restart),
    body);
  body.append(h("section", { "aria-label": t("live.list") }, h("div", { class: "fresh-place" }, fresh), message, list, h("p", { class: "row more" }, older)), open);
  const board = new Board({ list, message, fresh, older });
  const running = new Running(open);
  let line = null;
  const place = { id: null };

  function restart() {
    line?.abort();
    line = new AbortController();
    board.clear();
    place.id = null;
    message.replaceChildren(loading());
    drawState(state, "connecting");
    load(line, false).then((found) => found && connect());
  }

  /** The list names the place in the stream that it was read at: what is published since comes from there. */
  async function load(mine, again) {
    try {
      const found = await getJson("signals", { ...filterQuery(query), limit: PAGE }, mine.signal);
      if (mine.signal.aborted) return false;
      place.id ??= found.after ?? null;
      board.loaded(found, again);
      return true;
    } catch (error) {
      if (!mine.signal.aborted && board.empty) refuse(mine, error);
      return false;
    }
  }

  function connect() {
    line?.abort();
    line = new AbortController();
    const mine = line;
    follow((lastId, attempt, signal) => request("stream", { query: filterQuery(query), signal, headers: lastId === null ? {} : { "Last-Event-ID": lastId } }), {
      signal: mine.signal,
      place,
      onState: (now) => drawState(state, now),
      onEvent: ({ event, data }) => {
        const said = readJson(data);
        if (event === "gap") load(mine, true);
        if (event === "signal" && said) board.arrived(said.data ?? said);
        if (event === "case" && said) running.saw(said.data ?? said);
      },
    }).catch((error) => refuse(mine, error));
  }

  function refuse(mine, error) {
    if (mine.signal.aborted) return;
    drawState(state, "lost");
    message.replaceChildren(failed(error, restart));
  }

  older.addEventListener("click", async () => {
    older.disabled = true;
    try {
      board.loadedOlder(await getJson("signals", { ...filterQuery(query), limit: PAGE, before: board.next }, line.signal));
    } catch (error) {
      if (!line.signal.aborted) message.replaceChildren(failed(error));
    }
    older.disabled = false;
  });
  getJson("cases", { state: "open", limit: 12 }, gone).then((found) => running.loaded(found.items), () => {});
  gone.addEventListener("abort", () => line?.abort());
  // Browsers open few connections to one host: a tab that nobody looks at leaves its own to the others.
  const looked = () => (document.hidden ? line?.abort() : board.empty ? restart() : connect());
  document.addEventListener("visibilitychange", looked, { signal: gone });
  restart();
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function drawState(place, now) {
  place.className = `state-dot ${{ open: "on", connecting: "busy" }[now] ?? "lost"}`;
  replace(place, t(`stream.${now}`));
}

const filterQuery = (query) => ({ asset: query.get("asset"), event_type: query.get("event_type"), min_confidence: query.get("min_confidence") });

function filters(query, changed) {
  const set = (name, value) => {
    if (value) query.set(name, value);
    else query.delete(name);
    const text = query.toString();
    history.replaceState(null, "", `/${text ? `?${text}` : ""}`);
    changed();
  };
  const asset = h("input", { class: "input", name: "asset", autocomplete: "off", spellcheck: "false", placeholder: t("any"), maxlength: 20, value: query.get("asset") ?? "", on: { change: (e) => set("asset", e.target.value.trim().toUpperCase()) } });
  const chosen = query.get("event_type") ?? "";
  const type = h("select", { class: "input", name: "event_type", on: { change: (e) => set("event_type", e.target.value) } },
    h("option", { value: "" }, t("any")), EVENT_TYPES.map((name) => h("option", { value: name, selected: name === chosen }, term(name))));
  const least = query.get("min_confidence") ?? "0";
  const said = h("output", {}, confidence(Number(least)));
  const range = h("input", { type: "range", name: "min_confidence", min: 0, max: 1, step: 0.05, value: least, on: {
    input: (e) => { said.textContent = confidence(Number(e.target.value)); },
    change: (e) => set("min_confidence", Number(e.target.value) > 0 ? e.target.value : ""),
  } });
  return h("form", { class: "filters", role: "search", "aria-label": t("filters"), on: { submit: (e) => e.preventDefault() } },
    h("label", { class: "field" }, h("span", {}, t("asset")), asset),
    h("label", { class: "field" }, h("span", {}, t("event_type")), type),
    h("label", { class: "field" }, h("span", {}, t("confidence.least"), " ", said), range));
}

/** The list: newest first, one row a signal, its highest revision. What comes while the reader is further down waits. */
class Board {
  constructor(parts) {
    Object.assign(this, parts);
    this.rows = new Map();
    this.waiting = [];
    this.next = null;
    this.unsaid = [];
    this.settle = roving(this.list, ".signal-link");
    this.fresh.addEventListener("click", () => {
      this.release();
      window.scrollTo({ top: 0 });
      this.list.querySelector(".signal-link")?.focus();
    });
  }

  get empty() {
    return this.rows.size === 0;
  }

  clear() {
    this.rows.clear();
    this.waiting = [];
    this.list.replaceChildren();
    this.fresh.hidden = true;
    this.older.hidden = true;
  }

  loaded({ items, next }, again) {
    for (const one of [...items].reverse()) this.place(one, again);
    if (!again) this.next = next;
    this.after();
  }

  loadedOlder({ items, next }) {
    for (const one of items) if (!this.rows.has(one.signal_id)) this.add(one, "append");
    this.next = next;
    this.after();
  }

  arrived(signal) {
    const known = this.rows.get(signal.signal_id);
    if (known && known.signal.revision >= signal.revision) return;
    this.say(signal);
    if (!known && window.scrollY > 300) {
      this.waiting.push(signal);
      this.fresh.hidden = false;
      replace(this.fresh, t("live.new", { n: this.waiting.length }));
      return;
    }
    this.place(signal, true);
    this.after();
  }

  release() {
    for (const signal of this.waiting.splice(0)) this.place(signal, true);
    this.fresh.hidden = true;
    this.after();
  }

  place(signal, isNew) {
    const known = this.rows.get(signal.signal_id);
    if (known && known.signal.revision >= signal.revision) return;
    if (known) {
      const row = signalRow(signal);
      known.row.replaceWith(row);
      this.rows.set(signal.signal_id, { signal, row });
      row.classList.add("new");
      return;
    }
    this.add(signal, "prepend").classList.toggle("new", isNew);
  }

  add(signal, where) {
    const row = signalRow(signal);
    this.rows.set(signal.signal_id, { signal, row });
    this.list[where](row);
    return row;
  }

  after() {
    while (this.rows.size > KEPT && this.list.lastElementChild && window.scrollY < 300) {
      this.rows.delete(this.list.lastElementChild.dataset.id);
      this.list.lastElementChild.remove();
    }
    this.message.replaceChildren(...(this.empty ? [empty(t("live.empty"), t("live.empty.do"))] : []));
    this.older.hidden = !this.next;
    this.settle();
  }

  say(signal) {
    this.unsaid.push(signal);
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const all = this.unsaid.splice(0);
      const last = all[all.length - 1];
      announce(`${t("live.new", { n: all.length })}: ${last.asset} ${term(last.action)} ${confidence(last.confidence)}`);
    }, this.unsaid.length > 1 ? SAID_EVERY_MS : 300);
  }
}

/** The cases under way, by what was last heard of them. */
class Running {
  constructor(place) {
    this.place = place;
    this.cases = new Map();
    this.draw();
  }

  loaded(items) {
    for (const one of items ?? []) if (!this.cases.has(one.case_id)) this.cases.set(one.case_id, { ...one, news: one.text, text: "" });
    this.draw();
  }

  saw(one) {
    const before = this.cases.get(one.case_id);
    this.cases.delete(one.case_id);
    if (one.state === "open") this.cases.set(one.case_id, { ...before, ...one, news: one.news || before?.news });
    while (this.cases.size > 60) this.cases.delete(this.cases.keys().next().value);
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const newest = [...this.cases.values()].reverse().slice(0, 10);
    replace(this.place, h("h2", {}, t("live.open")), newest.length === 0
      ? h("p", { class: "hint" }, t("live.open.none"))
      : h("ul", {}, newest.map((one) => h("li", {},
        h("a", { href: `/case/${encodeURIComponent(one.case_id)}` }, words((one.news || one.case_id).slice(0, 90))),
        one.text && h("p", { class: "small faint" }, h("span", { class: "tag" }, term(one.phase)), " ", words(one.text.slice(0, 140)))))));
  }
}
