// An address that leads nowhere.

import { h } from "../dom.js";
import { t } from "../i18n.js";

export function mount(main, { setTitle }) {
  setTitle(t("missing.title"));
  main.append(h("div", { class: "state" }, h("h1", {}, t("missing.title")), h("p", {}, t("missing"), " ", h("code", {}, location.pathname)), h("p", { class: "hint" }, t("missing.do")),
    h("div", { class: "row" }, h("a", { class: "button main", href: "/" }, t("nav.live")), h("a", { class: "button", href: "/cases" }, t("nav.cases")))));
}
