// An empty desk: how to get the first signals.

import { postJson } from "../api.js";
import { ownCommand } from "../case/records.js";
import { h, icon, replace } from "../dom.js";
import { t } from "../i18n.js";
import { failed, publishLink } from "../states.js";

export function nothingYet(status, gone) {
  const said = h("div", { role: "status" });
  const sample = h("button", { class: "button main", type: "button", on: { click: () => load(sample, said, gone) } }, t("nothing.sample"));
  return h("div", { class: "state" }, icon(["M4 18h16", "M4 14l4-3 4 2 4-5 4 3"]),
    h("h2", {}, t("nothing")),
    status?.workers_seen === false && h("p", { class: "hint" }, t("nothing.workers")),
    h("div", { class: "row" }, status && status.mode !== "live" && sample, publishLink()),
    status && status.mode !== "live" && h("p", { class: "hint" }, t("nothing.sample.what")), said,
    h("p", { class: "hint" }, t("nothing.commands")),
    h("div", { class: "commands" }, ownCommand("publish - --source me", "echo 'Binance lists ZK' | "), ownCommand("signals --follow")));
}

async function load(button, said, gone) {
  button.setAttribute("aria-disabled", "true");
  try {
    const { published } = await postJson("news/sample", {}, {}, gone);
    replace(said, h("p", {}, t("nothing.sample.done", { n: published })));
    button.hidden = true;
  } catch (error) {
    if (!gone.aborted) replace(said, failed(error));
  }
  button.removeAttribute("aria-disabled");
}
