// The desk: signals as they come, the evidence of each beside the list, and the state of the pipeline in one line.

import { getJson, request } from "../api.js";
import { h, replace } from "../dom.js";
import { left, moment24, number } from "../format.js";
import { t } from "../i18n.js";
import { Alerts } from "../live/alerts.js";
import { beside, closeButton } from "../live/beside.js";
import { Board } from "../live/board.js";
import { filterQuery, filters, fits, put } from "../live/filters.js";
import { nothingYet } from "../live/nothing_yet.js";
import { Prices } from "../live/prices.js";
import { Running } from "../live/running.js";
import { SetAside } from "../live/set_aside.js";
import { comparison, isNewestFirst, sorting, turned } from "../live/sorting.js";
import { Views } from "../live/views.js";
import { drawVitals } from "../live/vitals.js";
import { isAsset } from "../signal_row.js";
import { follow } from "../sse.js";
import { failed, loading } from "../states.js";
import { lastStatus, onStatus } from "../status.js";

const PAGE = 100; // Signals a request; 200 are the most that the API gives.
const SORTED = 2_000; // Another order than the newest first reads on by itself until there are so many.
const OPEN = 12;
const EXPIRY_MS = 30_000;

export function mount(main, { query, signal: gone, setTitle }) {
  setTitle(t("nav.live"));
  const desk = new Desk(main, query, gone);
  desk.restart();
}

class Desk {
  constructor(main, query, gone) {
    Object.assign(this, { query, gone, line: null, lists: 0, place: { id: null }, openShown: false, sorted: sorting(query), most: SORTED });
    this.state = h("span", { class: "state-dot busy" }, t("stream.connecting"));
    this.side = h("aside", { class: "beside", "aria-label": t("beside"), hidden: true });
    this.message = h("div", { class: "desk-message" });
    this.aside = new SetAside(() => this.board.refilter());
    this.alerts = new Alerts((signal) => this.board.select(signal.signal_id, { focus: true }), gone);
    this.openCases = h("div", { class: "open-cases" });
    this.running = new Running(this.openCases);
    this.order = h("p", { class: "hint desk-order", role: "status", hidden: true });
    const list = h("section", { class: "desk-list", "aria-label": t("live.list") });
    const line = h("div", { class: "vitals-place", "aria-label": t("vitals"), role: "group" });
    const { form, watch } = filters(query, () => this.restart(), (name) => this.sort(turned({}, name)));
    main.append(
      h("div", { class: "desk-top" }, h("h1", {}, t("live.title")), line, h("a", { class: "button tiny", href: "/publish" }, t("nav.publish")), this.state),
      h("div", { class: "desk-tools" }, form, h("div", { class: "row" }, watch, new Views().node, this.aside.node, this.alerts.node), this.alerts.said, this.order),
      h("div", { class: "desk" }, list, this.side));
    this.prices = new Prices(gone, (cases) => this.repriced(new Set(cases)));
    this.board = new Board(list, {
      fits: (signal) => fits(query, signal, this.aside.watched),
      watched: (signal) => this.aside.watched.has(signal.asset),
      order: () => comparison(this.sorted),
      sort: (name) => this.sort(turned(this.sorted, name)),
      star: (signal) => this.watch(signal.asset),
      hidden: (signal) => this.aside.isMuted(signal),
      acknowledged: (signal) => this.aside.isSeen(signal),
      price: (signal) => this.prices.of(signal.case_id),
      more: () => this.more(),
      inSight: (signals) => this.prices.want(signals.map((one) => one.case_id)),
      chosen: (signal) => this.choose(signal),
      drawn: () => this.drawMessage(),
    });
    list.append(this.message);
    this.drawHead();
    onStatus((status) => {
      drawVitals(line, status, () => this.showOpen());
      if (this.said === "nothing" && this.unaware) this.drawMessage(true);
      if (this.mode !== status.mode) this.board.refilter();
      this.mode = status.mode;
    }, gone);
    this.listen();
  }

  listen() {
    const signal = this.gone;
    signal.addEventListener("abort", () => this.line?.abort());
    // Browsers open few connections to one host: a tab that nobody looks at leaves its own to the others, unless it is to ring.
    const looked = () => (document.hidden && !this.alerts.wanted ? this.line?.abort() : this.board.empty ? this.restart() : this.connect());
    document.addEventListener("visibilitychange", looked, { signal });
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    const expiring = setInterval(() => this.expire(), EXPIRY_MS);
    signal.addEventListener("abort", () => clearInterval(expiring));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, summary, [contenteditable]")) return;
    const { board } = this;
    const inList = event.target.closest(".desk-grid") !== null;
    const steps = { j: 1, k: -1, ...(inList && { ArrowDown: 1, ArrowUp: -1, PageDown: board.inOneView, PageUp: -board.inOneView, Home: -Infinity, End: Infinity }) };
    const chosen = board.shown.find((one) => one.signal_id === board.selected);
    if (event.key in steps) board.step(steps[event.key]);
    else if (event.key === "Enter" && event.target.matches(".signal")) this.enter(event.target.dataset.id);
    else if (event.key === "Escape" && !this.side.hidden) this.close();
    else if (event.key === "a" && chosen) this.acknowledge(chosen);
    else if (event.key === "w" && chosen && isAsset(chosen.asset)) this.watch(chosen.asset);
    else if (event.key === "/") document.querySelector("input[name=q]").focus();
    else return;
    event.preventDefault();
  }

  /** Enter chooses a line; once more, and the focus moves to the panel beside it. */
  enter(id) {
    if (this.board.selected === id) this.side.querySelector("a")?.focus();
    else this.board.select(id, { focus: true });
  }

  choose(signal) {
    this.openShown = false;
    this.side.hidden = signal === null;
    if (signal === null) return;
    this.side.scrollTop = 0;
    beside(this.side, signal, {
      close: () => this.close(),
      acknowledge: (one) => this.acknowledge(one),
      watch: (asset) => this.watch(asset),
      isWatched: (asset) => this.aside.watched.has(asset),
      gone: this.gone,
      mute: (name, value) => {
        this.close();
        this.aside.put(name, value, true);
      },
      isSeen: (one) => this.aside.isSeen(one),
      price: (one) => this.prices.of(one.case_id),
    });
  }

  close() {
    const chosen = this.board.selected !== null;
    this.openShown = false;
    this.side.hidden = true;
    if (chosen) this.board.select(null, { focus: true });
  }

  acknowledge(signal) {
    this.aside.toggleSeen(signal);
    this.side.querySelector("[aria-keyshortcuts=a]")?.setAttribute("aria-pressed", String(this.aside.isSeen(signal)));
  }

  watch(asset) {
    this.aside.toggleWatched(asset);
    this.side.querySelector("[aria-keyshortcuts=w]")?.setAttribute("aria-pressed", String(this.aside.watched.has(asset)));
    if (this.query.has("watch")) this.restart();
  }

  /** `asked` as in the address; null: newest first. */
  sort(asked) {
    put(this.query, "sort", asked);
    this.sorted = sorting(this.query);
    this.most = SORTED;
    this.drawHead();
    this.board.scroller.scrollTop = 0;
    this.board.refilter();
    this.goOn();
  }

  drawHead() {
    const { name, down } = this.sorted;
    for (const cell of this.board.head.children) {
      if (cell.dataset.name === name) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    document.querySelector("select[name=sort]").value = name;
  }

  /** What a list in another order than it comes is an order of: all signals, or the newest. */
  drawOrder() {
    const n = this.board.all.length;
    const isWhole = this.board.next === null;
    const kind = isNewestFirst(this.sorted) || n === 0 ? "" : isWhole ? "whole" : n < this.most ? "reading" : "part";
    if (this.order.dataset.said === `${kind} ${n} ${this.sorted.name}`) return;
    this.order.dataset.said = `${kind} ${n} ${this.sorted.name}`;
    this.order.hidden = kind === "";
    replace(this.order, kind && t(`order.${kind}`, { count: number(n), by: t(`col.${this.sorted.name}`) }),
      kind === "part" && [" ", h("button", { class: "button tiny", type: "button", on: {
        click: () => {
          this.most = n + SORTED;
          this.more();
        },
      } }, t("order.more", { count: number(SORTED) }))]);
  }

  showOpen() {
    const shown = this.openShown;
    this.board.select(null);
    this.openShown = !shown;
    this.side.hidden = shown;
    replace(this.side, h("div", { class: "beside-head" }, closeButton(() => this.close())), this.openCases);
  }

  restart() {
    this.line?.abort();
    this.line = new AbortController();
    this.lists += 1;
    this.place.id = null;
    this.waiting = true;
    this.most = SORTED;
    this.board.clear();
    this.drawState("connecting");
    this.load(this.line, false).then((found) => found && this.connect());
  }

  /** The list names the place in the stream that it was read at: what is published since comes from there. */
  async load(mine, again) {
    try {
      const found = this.unwatched ? { items: [], next: null } : await getJson("signals", { ...this.asked, limit: PAGE }, mine.signal);
      if (mine.signal.aborted) return false;
      this.place.id ??= found.after ?? null;
      this.waiting = false;
      if (again) this.board.reloaded(found);
      else this.board.loaded(found);
      this.repriced(new Set());
      this.loadRunning();
      this.goOn();
      return true;
    } catch (error) {
      if (!mine.signal.aborted && this.board.empty) this.refuse(mine, error);
      return false;
    }
  }

  /** What lies behind the lines that are here, as somebody scrolls there. */
  async more() {
    // In another order, new signals would appear between the lines: by itself it comes up to a number that is said.
    if (this.fetching || this.board.next === null || (comparison(this.sorted) && this.board.all.length >= this.most)) return;
    const mine = this.lists;
    this.fetching = true;
    let found = null;
    try {
      found = await getJson("signals", { ...this.asked, limit: 2 * PAGE, before: this.board.next }, this.gone);
    } catch (error) {
      if (!this.gone.aborted && mine === this.lists) replace(this.board.note, failed(error, () => this.more()));
    }
    this.fetching = false;
    if (mine === this.lists && found === null) return;
    if (mine === this.lists) this.board.loaded(found);
    this.goOn();
  }

  goOn() {
    if (comparison(this.sorted)) this.more();
  }

  get asked() {
    return filterQuery(this.query, this.aside.watched);
  }

  /** The watchlist is asked for, and there is nothing on it. */
  get unwatched() {
    return this.query.has("watch") && this.aside.watched.size === 0;
  }

  async loadRunning() {
    const mine = this.lists;
    this.running.clear();
    try {
      const { items } = await getJson("cases", { asset: this.asked.asset, event_type: this.query.get("event_type"), state: "open", limit: OPEN }, this.gone);
      if (mine === this.lists) this.running.loaded(items);
    } catch {
      // The stream reports them as they move.
    }
  }

  connect() {
    this.line?.abort();
    this.line = new AbortController();
    const mine = this.line;
    follow((lastId, attempt, signal) => request("stream", { query: this.asked, signal, headers: lastId === null ? {} : { "Last-Event-ID": lastId } }), {
      signal: mine.signal,
      place: this.place,
      onState: (now) => this.drawState(now),
      onEvent: ({ event, data }) => {
        const said = readJson(data);
        if (event === "gap") this.load(mine, true);
        if (event === "signal" && said && this.board.arrived(said.data ?? said)) this.alerts.came(said.data ?? said);
        if (event === "case" && said) this.running.saw(said.data ?? said);
      },
    }).catch((error) => this.refuse(mine, error));
  }

  refuse(mine, error) {
    if (mine.signal.aborted) return;
    this.drawState("lost");
    this.waiting = false;
    this.failed = failed(error, () => this.restart());
    this.drawMessage();
  }

  drawState(now) {
    this.state.className = `state-dot ${{ open: "on", connecting: "busy" }[now] ?? "lost"}`;
    replace(this.state, t(`stream.${now}`));
    if (now !== "lost") this.failed = null;
  }

  /** In the place of lines: that they are loaded, could not be, that there are none, or none that fit. */
  drawMessage(again = false) {
    this.drawOrder();
    const hidden = this.board.all.length - this.board.shown.length;
    const isReading = this.waiting || (this.board.empty && this.board.next !== null); // of many signals, none so far
    const kind = this.failed ? "failed" : isReading ? "loading" : this.board.shown.length > 0 ? "" : hidden > 0 ? "muted" : this.unwatched ? "unwatched" : [...this.query.keys()].filter((one) => one !== "sort").length > 0 ? "filtered" : "nothing";
    if (this.said === kind && kind !== "failed" && !again) return;
    this.said = kind;
    this.unaware = lastStatus() === null;
    const words = {
      failed: () => this.failed,
      loading,
      unwatched: () => h("p", { class: "state" }, t("watch.none")),
      muted: () => h("p", { class: "state" }, t("live.all_muted", { n: hidden })),
      filtered: () => h("div", { class: "state" }, h("p", {}, t("live.empty")), h("a", { class: "button tiny", href: "/" }, t("filters.clear"))),
      // What can be offered depends on the mode and on how the command is called.
      nothing: () => nothingYet(lastStatus(), this.gone),
    }[kind];
    replace(this.message, words?.() ?? null);
    this.message.hidden = kind === "";
  }

  repriced(cases) {
    this.board.grid.classList.toggle("no-prices", !this.board.shown.some((one) => this.prices.of(one.case_id)));
    for (const one of this.board.shown) if (cases.has(one.case_id)) this.board.drop(one.signal_id);
    this.board.draw();
  }

  /** What expired since it was drawn, and how much is left of the others. */
  expire() {
    for (const [id, line] of this.board.lines) {
      const signal = this.board.known.get(id);
      const [at, until] = [".c-time", ".c-expires"].map((one) => line.querySelector(one).textContent);
      if (signal && (left(signal.valid_until) !== until || moment24(signal.decided_at) !== at)) this.board.drop(id);
    }
    this.board.draw();
  }
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
