// The list of signals: newest first, one row a signal, its highest revision. What comes while the reader is further down
// waits; a revision takes the place of what it corrects, or takes it off the list where it no longer fits the filters.

import { h, replace, roving, words } from "../dom.js";
import { confidence } from "../format.js";
import { summaryOf, t, term } from "../i18n.js";
import { signalRow, standing } from "../signal_row.js";
import { announce, empty } from "../states.js";

const KEPT = 200; // Rows; older ones are behind "show older".
const SAID_EVERY_MS = 4_000;
const READING = 300; // Pixels from the top: further down the list keeps still.

export class Board {
  /** `parts`: the elements list, message, note, fresh and older; `fits(signal)`, whether the filters take it. */
  constructor(parts) {
    Object.assign(this, parts);
    this.rows = new Map();
    this.waiting = [];
    this.next = null;
    this.trimmed = false;
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
    this.next = null;
    this.trimmed = false;
    this.list.replaceChildren();
    this.note.replaceChildren();
    this.fresh.hidden = true;
    this.older.hidden = true;
  }

  loaded({ items, next }) {
    for (const one of [...items].reverse()) this.place(one, false);
    this.next = next;
    this.after();
  }

  /** The newest page once more, after a gap in the stream. Where it reaches no row that is here, a hole would stay: all begins anew. */
  reloaded(page) {
    const here = (one) => this.rows.get(one.signal_id)?.signal.revision === one.revision || this.waiting.some((held) => held.signal_id === one.signal_id && held.revision === one.revision);
    if (page.next && !page.items.some(here)) {
      this.clear();
      this.loaded(page);
      return;
    }
    for (const one of [...page.items].reverse()) this.place(one, true);
    this.after();
  }

  /** Add what lies behind the rows; the first of them gets the focus, which was on the button below. */
  loadedOlder({ items, next }) {
    const added = items.filter((one) => !this.rows.has(one.signal_id)).map((one) => this.add(one, "append"));
    this.next = next;
    this.after();
    added[0]?.querySelector(".signal-link").focus();
  }

  arrived(signal) {
    const known = this.rows.get(signal.signal_id);
    if (known) {
      if (known.signal.revision < signal.revision) this.revised(known, signal);
      return;
    }
    const held = this.waiting.findIndex((one) => one.signal_id === signal.signal_id);
    if (held >= 0) {
      if (this.waiting[held].revision < signal.revision) this.waiting.splice(held, 1, ...(this.fits(signal) ? [signal] : []));
      this.drawFresh();
      return;
    }
    if (!this.fits(signal)) return;
    this.say(signal);
    if (window.scrollY > READING) {
      this.waiting.push(signal);
      this.drawFresh();
      return;
    }
    this.place(signal, true);
    this.after();
  }

  revised(known, signal) {
    const places = { asset: signal.asset, standing: standing(signal), confidence: confidence(signal.confidence) };
    if (this.fits(signal)) {
      this.place(signal, true);
      announce(t("live.revised", places));
    } else {
      this.remove(known.row);
      replace(this.note, h("p", { class: "notice warn small" }, t("live.taken_off", places), " ",
        h("a", { href: `/case/${encodeURIComponent(signal.case_id)}` }, words(summaryOf(signal) || t("untitled")))));
      announce(t("live.taken_off", places));
    }
    this.after();
  }

  release() {
    for (const signal of this.waiting.splice(0)) this.place(signal, true);
    this.fresh.hidden = true;
    this.after();
  }

  drawFresh() {
    this.fresh.hidden = this.waiting.length === 0;
    replace(this.fresh, t("live.new", { n: this.waiting.length }));
  }

  place(signal, isNew) {
    const known = this.rows.get(signal.signal_id);
    if (known && known.signal.revision >= signal.revision) return;
    if (known) {
      const focused = known.row.contains(document.activeElement);
      const row = signalRow(signal);
      known.row.replaceWith(row);
      this.rows.set(signal.signal_id, { signal, row });
      row.classList.add("new");
      if (focused) focusLink(row);
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

  remove(row) {
    const beside = row.contains(document.activeElement) && (row.nextElementSibling ?? row.previousElementSibling);
    this.rows.delete(row.dataset.id);
    row.remove();
    if (beside) focusLink(beside);
  }

  after() {
    while (this.rows.size > KEPT && window.scrollY < READING) {
      const last = this.list.lastElementChild;
      if (last.contains(document.activeElement)) break;
      this.remove(last);
      // What `next` names lies behind what was just taken away: going on from there would leave a hole.
      this.next = null;
      this.trimmed = true;
    }
    this.message.replaceChildren(...(this.empty ? [empty(t("live.empty"), t("live.empty.do"))] : []));
    this.older.hidden = !this.next && !this.trimmed;
    replace(this.older, t(this.trimmed ? "live.reload" : "older"));
    this.settle();
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

/** One link of the list can be reached with Tab: the one that has the focus. */
function focusLink(row) {
  const link = row.querySelector(".signal-link");
  link.dataset.roving = "1";
  link.focus();
}
