// Views: filters and order under a name, kept in this browser.

import { h, replace, words } from "../dom.js";
import { t } from "../i18n.js";
import { remember, remembered } from "../memory.js";

const NAME = "views";
const MOST_CHARS = 40;

export class Views {
  constructor() {
    this.all = kept();
    this.summary = h("summary", {});
    this.list = h("ul", {});
    this.input = h("input", { class: "input", name: "view", maxlength: MOST_CHARS, autocomplete: "off", required: true, "aria-label": t("views.name"), placeholder: t("views.name") });
    this.node = h("details", { class: "views-menu", on: { toggle: () => this.draw() } }, this.summary,
      h("div", { class: "aside-list" }, this.list,
        h("form", { class: "row", on: { submit: (event) => this.save(event) } }, this.input, h("button", { class: "button tiny" }, t("views.save"))),
        h("p", { class: "hint" }, t("views.here"))));
    this.draw();
  }

  save(event) {
    event.preventDefault();
    const name = this.input.value.trim();
    if (!name) return;
    this.input.value = "";
    this.keep([...this.all.filter((one) => one.name !== name), { name, query: location.search.slice(1) }]);
  }

  keep(all) {
    this.all = all;
    remember(NAME, JSON.stringify(all));
    this.draw();
  }

  draw() {
    replace(this.summary, t("views", { n: this.all.length }));
    replace(this.list, this.all.map((one) => h("li", {},
      h("a", { href: `/${one.query ? `?${one.query}` : ""}`, "aria-current": one.query === location.search.slice(1) && "page" }, words(one.name)),
      h("button", { class: "button quiet tiny", type: "button", "aria-label": t("views.delete.of", { name: one.name }), on: { click: () => this.keep(this.all.filter((other) => other !== one)) } }, t("views.delete")))));
  }
}

function kept() {
  try {
    const all = JSON.parse(remembered(NAME) ?? "[]");
    return Array.isArray(all) ? all.filter((one) => typeof one?.name === "string" && typeof one?.query === "string") : [];
  } catch {
    return []; // What somebody else wrote there counts for nothing.
  }
}
