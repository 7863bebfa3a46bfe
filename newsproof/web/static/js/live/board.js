// The desk's list of signals: newest first, one line a signal in its highest revision. Of thousands of lines only those in
// sight are elements. What comes in is put on top; while somebody reads, the lines in sight stay where they are.

import { h, replace, words } from "../dom.js";
import { confidence } from "../format.js";
import { summaryOf, t, term } from "../i18n.js";
import { standing } from "../signal_row.js";
import { announce } from "../states.js";
import { deskRow, headRow } from "./row.js";

const SAID_EVERY_MS = 4_000;
const BEYOND = 8; // Lines above and below those in sight.
const USUAL_HEIGHT = 28;
const AIMING_MS = 3_000; // So long after the pointer moved over the list its lines keep still.
const AHEAD = 60; // Lines before the end of what was fetched: from there on more is asked for.

export class Board {
  /**
   * `look`: fits(signal), hidden(signal), acknowledged(signal), watched(signal), price(signal), order() (null: newest first);
   * and callbacks: sort(column), star(signal), more(), inSight(signals), chosen(signal or null), drawn().
   */
  constructor(place, look) {
    this.look = look;
    this.all = [];
    this.shown = [];
    this.known = new Map();
    this.lines = new Map();
    this.selected = null;
    this.next = null;
    this.unseen = 0;
    this.unsaid = [];
    this.height = USUAL_HEIGHT;
    this.fresh = h("button", { class: "button main fresh", type: "button", hidden: true, on: { click: () => this.toTop() } });
    this.note = h("div", {});
    this.canvas = h("div", { class: "desk-canvas", role: "rowgroup" });
    this.scroller = h("div", { class: "desk-scroller" }, this.canvas);
    this.head = headRow((name) => look.sort(name));
    this.grid = h("div", { class: "desk-grid no-prices", role: "grid", "aria-label": t("live.list") }, h("div", { role: "rowgroup" }, this.head), this.scroller);
    place.append(this.note, h("div", { class: "fresh-place" }, this.fresh), this.grid);
    this.scroller.addEventListener("scroll", () => this.soon(), { passive: true });
    this.scroller.addEventListener("pointermove", () => {
      this.aimed = Date.now();
    }, { passive: true });
    this.canvas.addEventListener("click", (event) => {
      const id = event.target.closest(".signal")?.dataset.id ?? null;
      if (event.target.closest(".star")) look.star(this.known.get(id));
      else this.select(id, { focus: true });
    });
    new ResizeObserver(() => {
      this.isMeasured = false;
      this.draw();
    }).observe(this.scroller);
  }

  get empty() {
    return this.all.length === 0;
  }

  clear() {
    this.all = [];
    this.known.clear();
    this.next = null;
    this.unseen = 0;
    this.note.replaceChildren();
    this.scroller.scrollTop = 0;
    this.refilter();
  }

  loaded({ items, next }) {
    const added = items.filter((one) => this.takes(one));
    this.all.push(...added);
    this.shown.push(...added.filter((one) => !this.look.hidden(one)));
    this.next = next;
    if (added.length > 0) this.arrange();
    this.stretch();
    this.draw();
  }

  /** The newest page once more, after a gap in the stream. Where it reaches no line that is here, a gap would remain, so the list is loaded again. */
  reloaded(page) {
    const here = (one) => (this.known.get(one.signal_id)?.revision ?? 0) >= one.revision;
    if (page.next && !page.items.some(here)) {
      this.clear();
      this.loaded(page);
      return;
    }
    for (const one of [...page.items].reverse()) this.arrived(one);
  }

  /** Returns whether the line is new or another one now. */
  arrived(signal) {
    const before = this.known.get(signal.signal_id);
    if (before) return before.revision < signal.revision && this.revised(before, signal);
    if (!this.look.fits(signal)) return false;
    this.known.set(signal.signal_id, signal);
    this.all.unshift(signal);
    if (this.look.hidden(signal)) return false;
    this.say(signal);
    const order = this.look.order();
    const above = order ? this.shown.findIndex((one) => order(signal, one) <= 0) : 0;
    const at = above < 0 ? this.shown.length : above;
    // What comes below the lines in sight moves none of them.
    const kept = this.isRead() && at * this.height <= this.scroller.scrollTop ? this.scroller.scrollTop + this.height : null;
    this.shown.splice(at, 0, signal);
    this.isNew = signal.signal_id;
    if (kept !== null && !order) this.unseen += 1;
    this.stretch(kept ?? this.scroller.scrollTop);
    if (kept !== null) this.scroller.scrollTop = kept;
    this.draw();
    return true;
  }

  /** In the order that was chosen; `all` stays as it came, newest first. */
  arrange() {
    const order = this.look.order();
    if (order) this.shown.sort(order);
  }

  /** Somebody reads: further down, or a line that was chosen; or is about to choose one. */
  isRead() {
    return this.scroller.scrollTop > 0 || this.selected !== null || Date.now() - (this.aimed ?? 0) < AIMING_MS;
  }

  takes(signal) {
    const before = this.known.get(signal.signal_id);
    if (before) return false;
    this.known.set(signal.signal_id, signal);
    return true;
  }

  revised(before, signal) {
    const places = { asset: signal.asset, standing: standing(signal), confidence: confidence(signal.confidence) };
    const fits = this.look.fits(signal);
    for (const list of [this.all, this.shown]) {
      const at = list.indexOf(before);
      if (at >= 0) list.splice(at, 1, ...(fits ? [signal] : []));
    }
    this.arrange();
    this.drop(signal.signal_id);
    if (fits) {
      this.known.set(signal.signal_id, signal);
      this.isNew = signal.signal_id;
      announce(t("live.revised", places));
    } else {
      this.known.delete(signal.signal_id);
      replace(this.note, h("p", { class: "notice warn small" }, t("live.taken_off", places), " ",
        h("a", { href: `/case/${encodeURIComponent(signal.case_id)}` }, words(summaryOf(signal) || t("untitled")))));
      announce(t("live.taken_off", places));
    }
    if (this.selected === signal.signal_id) this.look.chosen(signal);
    this.stretch();
    this.draw();
    return true;
  }

  /** After what is hidden has changed, or the whole list. */
  refilter() {
    this.shown = this.all.filter((one) => !this.look.hidden(one));
    this.arrange();
    this.drop();
    this.stretch();
    this.draw();
  }

  /** Render a line again at the next drawing, or all of them. */
  drop(id) {
    const gone = id === undefined ? [...this.lines.keys()] : [id].filter((one) => this.lines.has(one));
    for (const one of gone) {
      const line = this.lines.get(one);
      this.focused ??= line.contains(document.activeElement) ? one : undefined;
      line.remove();
      this.lines.delete(one);
    }
  }

  /** As high as all lines, and never so low that the lines in sight would have to move. */
  stretch(top = this.scroller.scrollTop) {
    this.canvas.style.height = `${Math.max(this.shown.length * this.height, top > 0 ? top + this.scroller.clientHeight : 0)}px`;
    this.grid.setAttribute("aria-rowcount", String(this.next ? -1 : this.shown.length + 1));
  }

  soon() {
    if (this.scroller.scrollTop === 0) this.unseen = 0;
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - BEYOND);
    const last = Math.min(this.shown.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / this.height) + BEYOND);
    const wanted = new Map();
    for (let at = first; at < last; at += 1) wanted.set(this.shown[at].signal_id, at);
    // The chosen line stays an element wherever it is: it may hold the focus.
    const at = this.selected === null ? -1 : this.place(this.selected);
    const ordered = [...wanted];
    if (at >= 0 && !wanted.has(this.selected)) ordered[at < first ? "unshift" : "push"]([this.selected, at]);
    const keep = new Set(ordered.map(([id]) => id));
    for (const id of [...this.lines.keys()]) if (!keep.has(id)) this.drop(id);
    let after = this.canvas.firstElementChild;
    for (const [id, index] of ordered) {
      const line = this.lines.get(id) ?? this.make(index);
      if (line === after) after = after.nextElementSibling;
      else this.canvas.insertBefore(line, after);
      line.style.transform = `translateY(${index * this.height}px)`;
      line.setAttribute("aria-rowindex", String(index + 2));
      line.tabIndex = (at >= 0 ? id === this.selected : index === 0) ? 0 : -1;
    }
    if (this.measure()) return void this.draw();
    if (this.focused !== undefined) this.lines.get(this.focused)?.focus({ preventScroll: true });
    this.focused = undefined;
    this.isNew = null;
    this.fresh.hidden = this.unseen === 0;
    if (this.unseen > 0) replace(this.fresh, t("live.new", { n: this.unseen }));
    this.look.inSight(this.shown.slice(first, last));
    this.look.drawn();
    if (this.next && last > this.shown.length - AHEAD) this.look.more();
  }

  /** How high a line is, once there is one, and again if the list has another size; returns whether that has changed. */
  measure() {
    const high = this.isMeasured ? 0 : this.canvas.firstElementChild?.offsetHeight;
    if (!high) return false;
    this.isMeasured = true;
    if (high === this.height) return false;
    this.height = high;
    this.stretch();
    return true;
  }

  make(index) {
    const signal = this.shown[index];
    const line = deskRow(signal, { index, price: this.look.price(signal), acknowledged: this.look.acknowledged(signal), watched: this.look.watched(signal), selected: this.selected === signal.signal_id });
    line.classList.toggle("new", this.isNew === signal.signal_id);
    this.lines.set(signal.signal_id, line);
    return line;
  }

  place(id) {
    return this.shown.findIndex((one) => one.signal_id === id);
  }

  /** Choose a line, or none; with `focus` it gets that, and is scrolled into sight. */
  select(id, { focus = false } = {}) {
    if (id === null && this.selected === null) return;
    const before = this.selected;
    this.selected = id;
    for (const one of [before, id]) if (one !== null) this.lines.get(one)?.setAttribute("aria-selected", String(one === id));
    const at = id === null ? -1 : this.place(id);
    if (at >= 0) this.reach(at);
    this.draw();
    if (focus) this.lines.get(id ?? before)?.focus({ preventScroll: true });
    if (before === id) return;
    this.look.chosen(at < 0 ? null : this.shown[at]);
    if (at >= 0) this.reach(at); // What opened beside it may have taken room from the list.
  }

  /** Go from the chosen line so many on; from none, to the first in sight. */
  step(by) {
    if (this.shown.length === 0) return;
    const at = this.selected === null ? -1 : this.place(this.selected);
    const first = Math.ceil(this.scroller.scrollTop / this.height);
    const to = Math.min(this.shown.length - 1, Math.max(0, at < 0 ? first : at + by));
    this.select(this.shown[to].signal_id, { focus: true });
  }

  get inOneView() {
    return Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 1);
  }

  reach(at) {
    const top = at * this.height;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + this.height > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = top + this.height - this.scroller.clientHeight;
  }

  toTop() {
    this.unseen = 0;
    this.scroller.scrollTop = 0;
    this.stretch(0);
    this.draw();
    this.lines.get(this.shown[0]?.signal_id)?.focus({ preventScroll: true });
  }

  say(signal) {
    this.unsaid.push(signal);
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const all = this.unsaid.splice(0);
      const last = all[all.length - 1];
      announce(`${t("live.new", { n: all.length })}${t("colon")}${last.asset} ${term(last.action)} ${confidence(last.confidence)}`);
    }, this.unsaid.length > 1 ? SAID_EVERY_MS : 300);
  }
}
