// The records behind the story: calls with latency and cost, prompt versions, raw events, and how to decide it again.

import { h, words } from "../dom.js";
import { cost, duration, number, usd, utc } from "../format.js";
import { t, term } from "../i18n.js";
import { announce } from "../states.js";
import { whenKnown } from "../status.js";
import { stackedTable } from "../tables.js";

export function calls(all) {
  if (all.length === 0) return h("p", { class: "hint" }, t("case.calls.none"));
  const priced = all.filter((one) => one.cost_usd !== null && one.cost_usd !== undefined);
  const sum = priced.length > 0 ? priced.reduce((total, one) => total + Number(one.cost_usd), 0) : null;
  const unpriced = all.length - priced.length;
  const columns = ["step", "kind", "by", "prompt", "latency", "tokens", "cost", "error"];
  const right = new Set(["latency", "tokens", "cost"]);
  return h("div", {},
    h("p", { class: "hint" }, t("case.calls.sum", { n: all.length, cost: cost(sum, unpriced) }), unpriced > 0 && ` ${t("case.calls.unpriced", { n: unpriced })}`),
    stackedTable(t("case.calls"), columns.map((name) => [t(`calls.${name}`), right.has(name)]), all.map((one) => h("tr", {},
        h("th", { scope: "row" }, term(one.event)),
        h("td", {}, term(one.kind)),
        h("td", {}, words(one.model || one.provider || "–")),
        h("td", {}, one.prompt_name ? words(`${one.prompt_name} v${one.prompt_version}`) : "–"),
        h("td", { class: "n" }, duration(one.latency_ms)),
        h("td", { class: "n" }, number(tokens(one) || null)),
        h("td", { class: "n" }, usd(one.cost_usd, t("unknown"))),
        h("td", {}, one.error && h("span", { class: "tag bad" }, term(one.error)), one.cached && h("span", { class: "tag" }, t("searches.cached")), one.accepted === false && h("span", { class: "tag warn" }, t("passed_by")), one.mode && one.mode !== "live" && h("span", { class: "tag warn" }, term(one.mode)))))));
}

const tokens = (one) => (one.usage_input_tokens ?? 0) + (one.usage_output_tokens ?? 0);

export function prompts(all, configHash) {
  const line = configHash && h("p", { class: "hint" }, t("case.config"), " ", h("code", {}, configHash));
  if (all.length === 0) return line || null;
  return h("div", {}, h("ul", { class: "tags" }, all.map((one) => h("li", { class: "tag", title: one.hash ?? null }, words(`${one.name} v${one.version}`)))), line);
}

export function replay({ case: one }) {
  const id = one.case_id;
  return h("div", { class: "commands" }, h("p", { class: "hint" }, t("case.replay.how")),
    ownCommand(`case replay ${id}`), h("p", { class: "hint" }, t("case.replay.prompt")), ownCommand(`case replay ${id} --prompt synthesize=FILE.md`),
    h("p", { class: "hint" }, t("case.replay.read")), ownCommand(`case ${id}`));
}

/** A command of this program, with its data directory, as soon as the system has said where it lies. */
export function ownCommand(text, before = "") {
  const place = h("div", {});
  whenKnown(({ command: program }) => place.append(command(`${before}${program} ${text}`)));
  return place;
}

/** A command that can be copied. */
export function command(text) {
  return h("div", { class: "command" }, h("code", {}, text), h("button", { class: "button quiet tiny", type: "button", "aria-label": `${t("copy")}: ${text}`, on: {
    click: async () => {
      try {
        await navigator.clipboard.writeText(text);
        announce(t("copied"));
      } catch {
        announce(t("copy.failed"));
      }
    },
  } }, t("copy")));
}

/** Raw events are made when they are opened for the first time: a case may have hundreds. */
export function rawEvents(all) {
  const list = h("ol", { class: "raw" });
  const toggle = h("details", { class: "raw-events" }, h("summary", {}, t("case.events.show", { n: all.length })), list);
  toggle.addEventListener("toggle", () => {
    if (toggle.open && list.childElementCount === 0) list.append(...all.map(rawEvent));
  });
  return toggle;
}

function rawEvent(one) {
  const body = h("pre", { tabindex: 0, dir: "ltr" });
  const line = h("details", {}, h("summary", {}, h("code", {}, `${one.offset}`), " ", words(one.envelope.type), " ",
    h("span", { class: "small faint" }, utc(one.appended_at)), one.accepted === false && h("span", { class: "tag warn" }, t("passed_by"))), body);
  line.addEventListener("toggle", () => {
    if (line.open && !body.hasChildNodes()) body.append(words(JSON.stringify(one.event, null, 2), "code"));
  });
  return h("li", {}, line);
}
