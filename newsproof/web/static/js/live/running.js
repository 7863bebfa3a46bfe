// The cases under way, by what was last heard of them.

import { h, replace, words } from "../dom.js";
import { saidIn, t, term } from "../i18n.js";

const KEPT = 60;
const SHOWN = 10;

export class Running {
  constructor(place) {
    this.place = place;
    this.clear();
  }

  clear() {
    this.cases = new Map();
    this.ended = new Set();
    this.draw();
  }

  /** What a list says is open; what has ended since it was read stays away. */
  loaded(items) {
    const before = this.cases;
    this.cases = new Map();
    for (const one of [...(items ?? [])].reverse()) if (!this.ended.has(one.case_id)) this.cases.set(one.case_id, { ...one, news: one.text, text: "", text_zh: "" });
    for (const [id, one] of before) this.cases.set(id, one);
    this.draw();
  }

  saw(one) {
    const before = this.cases.get(one.case_id);
    this.cases.delete(one.case_id);
    if (one.status === "open") this.cases.set(one.case_id, { ...before, ...one, news: one.news || before?.news });
    else this.ended.add(one.case_id);
    while (this.cases.size > KEPT) this.cases.delete(this.cases.keys().next().value);
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const newest = [...this.cases.values()].reverse().slice(0, SHOWN);
    replace(this.place, h("h2", {}, t("live.open")), newest.length === 0
      ? h("p", { class: "hint" }, t("live.open.none"))
      : h("ul", {}, newest.map((one) => h("li", {},
        h("a", { href: `/case/${encodeURIComponent(one.case_id)}` }, words((one.news || one.case_id).slice(0, 90))),
        one.text && h("p", { class: "small faint" }, h("span", { class: "tag" }, term(one.phase)), " ", words(saidIn(one, "text").slice(0, 140)))))));
  }
}
