// What its reader keeps in this browser alone: watched assets, muted assets and sources, and signals that were dealt with.

import { h, replace, words } from "../dom.js";
import { t } from "../i18n.js";
import { remember, remembered } from "../memory.js";

const KEPT = 2_000; // Signals; the oldest are forgotten first.
const NAME = "aside";

export class SetAside {
  /** `changed()` hears of every change. */
  constructor(changed) {
    let kept = {};
    try {
      kept = JSON.parse(remembered(NAME) ?? "{}") ?? {};
    } catch {
      // What somebody else wrote there counts for nothing.
    }
    const list = (name) => new Set(Array.isArray(kept[name]) ? kept[name] : []);
    this.sets = { asset: list("asset"), source: list("source"), seen: list("seen"), watch: list("watch") };
    this.changed = changed;
    this.list = h("div", { class: "aside-list" });
    this.summary = h("summary", {});
    this.node = h("details", { class: "aside-menu" }, this.summary, this.list);
    this.draw();
  }

  isMuted(signal) {
    return this.sets.asset.has(signal.asset) || this.sets.source.has(signal.news_source);
  }

  get watched() {
    return this.sets.watch;
  }

  toggleWatched(asset) {
    this.put("watch", asset, !this.watched.has(asset));
  }

  /** Acknowledged in this revision: a later retraction is shown again. */
  isSeen(signal) {
    return this.sets.seen.has(mark(signal));
  }

  toggleSeen(signal) {
    this.put("seen", mark(signal), !this.isSeen(signal));
  }

  put(name, value, is) {
    if (is) this.sets[name].add(value);
    else this.sets[name].delete(value);
    while (this.sets.seen.size > KEPT) this.sets.seen.delete(this.sets.seen.values().next().value);
    this.keep();
  }

  keep() {
    remember(NAME, JSON.stringify(Object.fromEntries(Object.entries(this.sets).map(([name, set]) => [name, [...set]]))));
    this.draw();
    this.changed();
  }

  draw() {
    const { asset, source, seen } = this.sets;
    const muted = asset.size + source.size;
    this.node.hidden = muted + seen.size === 0;
    replace(this.summary, [muted > 0 && t("aside.muted", { n: muted }), seen.size > 0 && t("aside.seen", { n: seen.size })].filter(Boolean).join(t("comma")));
    const back = (name, value) => h("li", {}, h("span", {}, t(name), t("colon"), words(value || t("asset.none"))),
      h("button", { class: "button quiet tiny", type: "button", "aria-label": `${t("aside.undo")}: ${value}`, on: { click: () => this.put(name, value, false) } }, t("aside.undo")));
    replace(this.list, h("ul", {}, [...asset].map((one) => back("asset", one)), [...source].map((one) => back("source", one)),
      seen.size > 0 && h("li", {}, h("span", {}, t("aside.seen", { n: seen.size })), h("button", { class: "button quiet tiny", type: "button", on: {
        click: () => {
          seen.clear();
          this.keep();
        },
      } }, t("aside.forget")))), h("p", { class: "hint" }, t("aside.here")));
  }
}

const mark = (signal) => `${signal.signal_id}.${signal.revision}`;
