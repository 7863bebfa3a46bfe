// Publish one news item, as `newsproof publish` does.

import { postJson } from "../api.js";
import { ownCommand } from "../case/records.js";
import { h, replace } from "../dom.js";
import { t } from "../i18n.js";
import { failed } from "../states.js";
import { lastStatus } from "../status.js";

const FIELDS = { source: 256, published_at: 40, external_id: 512, url: 2000, author: 256, language: 20 };

export function mount(main, { signal, setTitle }) {
  setTitle(t("nav.publish"));
  const said = h("div", { class: "published", role: "status" });
  const input = (name, more = {}) => h("label", { class: "field" }, h("span", {}, t(`news.${name}`)),
    h("input", { class: "input", name, maxlength: FIELDS[name], autocomplete: "off", placeholder: t(`news.${name}.out`), ...more }));
  const text = h("textarea", { class: "input", name: "text", rows: 5, required: true, placeholder: t("news.text.out") });
  const send = h("button", { class: "button main" }, t("news.send"));
  const form = h("form", { class: "publish-form", on: {
    submit: (event) => {
      event.preventDefault();
      publish(form, send, said, signal);
    },
  } },
    h("label", { class: "field" }, h("span", {}, t("news.text")), text),
    h("div", { class: "fields" }, input("source"), input("published_at", { type: "datetime-local" }), input("external_id"), input("url", { type: "url" }), input("author"),
      h("label", { class: "field" }, h("span", {}, t("news.language")), h("select", { class: "input", name: "language" },
        ["", "en", "zh"].map((one) => h("option", { value: one }, t(`news.language.${one || "out"}`)))))),
    h("div", { class: "row" }, send, h("span", { class: "small faint" }, t("news.cost"))));
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("news.title")), h("p", {}, t("news.lead"))), form, said,
    h("section", { class: "section" }, h("h2", {}, t("news.commands")), h("div", { class: "commands" },
      ownCommand("publish -", `echo '{"source": "me", "text": "Binance lists ZK"}' | `), ownCommand("publish FILE.jsonl"), ownCommand("publish --help"))));
  text.focus();
}

async function publish(form, button, said, gone) {
  if (button.getAttribute("aria-disabled")) return;
  button.setAttribute("aria-disabled", "true");
  const item = Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== ""));
  // The form speaks in the reader's zone.
  if (item.published_at) item.published_at = new Date(item.published_at).toISOString();
  try {
    const done = await postJson("news", item, {}, gone);
    replace(said, h("div", { class: "notice" }, h("p", {}, t("news.done"), " ", h("a", { href: `/case/${encodeURIComponent(done.case_id)}` }, t("news.case"))),
      h("p", {}, t(lastStatus()?.workers_seen === false ? "news.waits" : "news.next"), done.dated_now && ` ${t("news.dated_now")}`)));
    form.reset();
    form.elements.text.focus();
  } catch (error) {
    if (!gone.aborted) replace(said, failed(error));
  }
  button.removeAttribute("aria-disabled");
}
