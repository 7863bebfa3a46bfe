// Bots: what each holds, what it sent and what was refused, and the brake. What a bot or a destination says is quoted as it is.

import { getJson, postJson } from "../api.js";
import { ownCommand } from "../case/records.js";
import { h, replace, words } from "../dom.js";
import { clock, figure, known, number, signed } from "../format.js";
import { asWritten, t } from "../i18n.js";
import { announce, empty, failed, loading } from "../states.js";
import { stackedTable } from "../tables.js";
import { agoTime, exactTime, whileSeen } from "../times.js";

const EVERY_MS = 5_000;
const TRADES = 5;
const TONES = { delivered: "good", refused: "bad", unknown: "warn" };

export function mount(main, { signal, setTitle }) {
  setTitle(t("nav.bots"));
  const asOf = h("p", {});
  const trouble = h("div", {});
  const told = h("div", {});
  const list = h("div", { class: "bots" }, loading());
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("bots.title")), asOf), trouble, told, list);
  let at = null;
  let drawn = "";

  async function look() {
    try {
      const found = await getJson("bots", {}, signal);
      at = found.at;
      replace(trouble);
      replace(asOf, t("ops.as_of", { at: clock(at) }));
      draw(found);
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (at === null) list.replaceChildren();
      const said = failed(error, () => look());
      if (at !== null) said.append(h("p", {}, t("ops.stale", { at: clock(at) })));
      if (trouble.textContent !== said.textContent) trouble.replaceChildren(said);
    }
  }

  /** Redrawn only if something changed: reading is not disturbed, and the focus stays. */
  function draw({ at: _, ...found }) {
    const next = JSON.stringify(found);
    if (next === drawn) return;
    drawn = next;
    const focus = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const { wrong, halts, items } = found;
    replace(list, wrong && h("div", { class: "notice error" }, h("p", {}, t("bots.wrong")), words(asWritten(wrong), "p")),
      items.length || halts.length ? everyone(halts) : !wrong && empty(t("bots.none"), t("bots.none.hint"), ownCommand("bots run NAME")),
      items.some((one) => one.deliveries.length) && h("p", { class: "hint" }, t("bots.deliveries.hint")), items.map((bot) => card(bot, halts.length > 0)));
    focusOn(focus);
  }

  function everyone(halts) {
    return h("div", { class: `row notice ${halts.length ? "warn" : ""}` }, halts.length ? halts.map((one) => halted(one, "bots.halted.all")) : h("span", {}, t("bots.brake")),
      button(t("bots.halt.all"), () => ask(null), "halt"), halts.length > 0 && button(t("bots.resume.all"), () => send("resume", { bot: null }, "halt"), "resume"));
  }

  function card(bot, allHalted) {
    const trades = new Map((bot.paper?.trades ?? []).map((one) => [one.entry, one]));
    const closed = [...trades.values()].filter((one) => one.exited_at).slice(0, TRADES);
    const orders = bot.kind !== "notify";
    const holds = orders || bot.positions.length > 0;
    return h("section", { class: "card bot", "aria-label": t("bots.of", { bot: bot.name }) }, h("div", { class: "row" }, h("h2", {}, words(bot.name)), h("span", { class: "tag" }, words(t(`bots.kind.${bot.kind}`))),
      orders && h("span", { class: `tag ${bot.mode === "live" ? "warn" : ""}` }, t(`bots.mode.${bot.mode}`)),
      h("span", { class: `state-dot ${{ ready: "on", waits: "busy", away: "lost" }[bot.process] ?? ""}` }, t(`bots.process.${bot.process ?? "unknown"}`)),
      (bot.halts.length > 0 || allHalted) && h("span", { class: "tag bad" }, t("bots.halted")),
      h("span", { class: "row bot-do" }, button(t("bots.halt"), () => ask(bot.name, orders), `halt ${bot.name}`, t("bots.halt.of", { bot: bot.name })),
        bot.halts.length > 0 && button(t("bots.resume"), () => send("resume", { bot: bot.name }, `halt ${bot.name}`), `resume ${bot.name}`, t("bots.resume.of", { bot: bot.name })))),
    !["ready", "waits"].includes(bot.process) && [h("p", { class: "hint" }, t("bots.not_running")), bot.defined && ownCommand(`bots run ${bot.name}`)],
    !bot.defined && h("p", { class: "notice warn" }, t("bots.undefined")),
    bot.halts.map((one) => h("p", { class: "notice warn" }, halted(one, "bots.halted.single", orders))),
    holds && h("h3", {}, t("bots.positions")),
    holds && positions(bot),
    bot.paper && h("h3", {}, t("bots.paper")),
    bot.paper && h("p", {}, t("bots.paper.profit", { n: bot.paper.closed, profit: percent(bot.paper.profit) }), " ",
      bot.paper.open > 0 && (bot.paper.open_profit === null ? t("bots.paper.open.unknown") : t("bots.paper.open", { n: bot.paper.open, profit: percent(bot.paper.open_profit) }))),
    closed.length > 0 && stackedTable(t("bots.paper"), [[t("bots.instrument")], [t("bots.side")], [t("bots.entry"), 1], [t("bots.exit"), 1], [t("bots.profit"), 1]], closed.map((one) => h("tr", {},
      h("th", { scope: "row" }, words(one.instrument)), h("td", {}, t(`bots.${one.side}`)), h("td", { class: "n" }, price(one.entry_price)), h("td", { class: "n" }, price(one.exit_price)), h("td", { class: "n" }, percent(one.profit))))),
    h("h3", {}, t("bots.deliveries")), bot.deliveries.length ? deliveries(bot) : h("p", { class: "hint" }, t("bots.deliveries.none")));
  }

  /** What a halt does to positions is chosen before it is sent, and the focus is on "cancel": Enter twice in a row halts nothing. */
  function ask(bot, orders = true) {
    const key = bot === null ? "halt" : `halt ${bot}`;
    const cancel = () => {
      replace(told);
      focusOn(key);
    };
    const question = bot === null ? t("bots.halt.sure.all") : t(orders ? "bots.halt.sure" : "bots.halt.sure.messages", { bot });
    replace(told, h("div", { class: "notice warn row", role: "group", "aria-label": question }, h("span", {}, question), button(t("bots.halt.no"), cancel, "no"),
      button(t(orders ? "bots.halt.keep" : "bots.halt.messages"), () => send("halt", { bot, exit: false }, key), "keep"), orders && button(t("bots.halt.exit"), () => send("halt", { bot, exit: true }, key), "exit")));
    told.querySelector("button").focus();
  }

  async function send(command, body, key) {
    replace(told, h("p", { class: "notice" }, t("bots.sending")));
    try {
      await postJson(`bots/${command}`, body, {}, signal);
      const done = t(`bots.${command}.done`);
      replace(told, h("p", { class: "notice" }, done));
      announce(done);
      await look();
      focusOn(key);
    } catch (error) {
      if (error.name !== "AbortError" && !signal.aborted) replace(told, failed(error));
    }
  }

  function focusOn(key) {
    if (key) [...list.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key)?.focus();
  }

  whileSeen(look, EVERY_MS, signal);
}

const price = (value) => known(value) && (value >= 1 ? number(value, 2) : figure(value));
const percent = (share) => (share === null ? "–" : `${signed(100 * share)} %`);

function halted(one, key, orders = true) {
  const by = one.by === "the web service" ? t("bots.web") : one.by;
  const does = !orders ? "bots.halted.messages" : one.exit ? "bots.halted.exit" : "bots.halted.keep";
  return h("span", {}, words(t(key, { by })), " ", t(does), " ", agoTime(one.at));
}

/** One row per instrument that is desired or held: the two beside each other. Prices are of fills on paper alone. */
function positions(bot) {
  const wanted = new Map((bot.desired ?? []).map((one) => [one.instrument, one]));
  const lacking = [...wanted.values()].filter((one) => !bot.positions.some((held) => held.instrument === one.instrument));
  if (!bot.positions.length && !lacking.length) return h("p", { class: "hint" }, t(bot.desired === null ? "bots.positions.none" : "bots.positions.flat"));
  const priced = bot.positions.some((one) => one.paper);
  const prices = (paper) => priced && [h("td", { class: "n" }, price(paper?.entry_price)), h("td", { class: "n" }, paper && (paper.mark ? [price(paper.mark.price), " ", agoTime(paper.mark.at, { class: "small" })] : missing(paper))),
    h("td", { class: "n" }, paper?.mark && percent(paper.profit))];
  const row = (one, desired, held, paper, since) => h("tr", {}, h("th", { scope: "row" }, words(one.instrument)), h("td", {}, desired), h("td", { class: "text" }, held), prices(paper), h("td", {}, since && agoTime(since)));
  const rows = [...bot.positions.map((one) => row(one, asked(wanted.get(one.instrument), bot), [t(`bots.${one.side}`), " ", state(one, bot)], one.paper, one.since)),
    ...lacking.map((one) => row(one, asked(one, bot), [t("bots.flat"), one.side && h("p", { class: "small" }, one.state ? [h("span", { class: `tag ${TONES[one.state] ?? ""}` }, t(`bots.outcome.${one.state}`)), " ", words(asWritten(one.reason))] : t("bots.desired.waits"))], null, null))];
  return stackedTable(t("bots.positions"), [[t("bots.instrument")], [t("bots.desired")], [t("bots.held")], ...(priced ? [[t("bots.entry"), 1], [t("bots.mark"), 1], [t("bots.open_profit"), 1]] : []), [t("bots.since")]], rows);
}

function asked(wanted, bot) {
  if (bot.desired === null) return t("bots.desired.unknown");
  if (!wanted) return t("bots.flat");
  if (!wanted.side) return [t("bots.flat"), h("p", { class: "small" }, t("bots.desired.opposite"))];
  return [h("a", { href: `/case/${encodeURIComponent(wanted.case_id)}` }, t(`bots.${wanted.side}`)), h("p", { class: "small" }, t("bots.desired.until"), " ", exactTime(wanted.valid_until))];
}

const missing = (paper) => h("span", { class: "small", title: asWritten(paper.no_mark) }, t("bots.mark.none"));

function state(one, bot) {
  const { exit } = one;
  const foreign = one.adapter !== bot.kind || one.mode !== bot.mode;
  return [h("span", { class: `tag ${exit ? "bad" : one.outcome === "delivered" ? "good" : "warn"}` }, exit ? [t("bots.exit.unconfirmed"), " ", agoTime(exit.since, { class: "" })] : t(`bots.position.${one.outcome ?? "attempted"}`)),
    exit && h("p", { class: "small" }, t("bots.exit.attempts", { n: exit.attempts, why: asWritten(exit.why) }), exit.reason && [" ", t("bots.exit.last", { state: t(`bots.outcome.${exit.state}`) }), " ", words(asWritten(exit.reason))]),
    !exit && one.outcome === "unknown" && h("p", { class: "small" }, t("bots.position.lost")),
    foreign && h("p", { class: "small bad-ink" }, t("bots.position.foreign", { kind: t(`bots.kind.${one.adapter}`), mode: t(`bots.mode.${one.mode}`) }))];
}

function deliveries(bot) {
  const rows = bot.deliveries.map((one) => h("tr", {}, h("th", { scope: "row" }, agoTime(one.at)), h("td", {}, t(`bots.intent.${one.intent}`), one.side && one.intent !== "notify" && ` ${t(`bots.${one.side}`)}`), h("td", {}, words(one.instrument)),
    h("td", {}, h("span", { class: `tag ${TONES[one.state] ?? ""}` }, t(`bots.outcome.${one.state}`))), h("td", { class: "n" }, price(one.price)),
    h("td", { class: "text" }, reason(one))));
  return stackedTable(t("bots.deliveries"), [[t("bots.when")], [t("bots.what")], [t("bots.instrument")], [t("bots.result")], [t("bots.price"), 1], [t("bots.reason")]], rows);
}

function reason(one) {
  const said = asWritten([one.intent !== "enter" && one.why, one.reason].filter(Boolean).join(" · "));
  return said && words(said);
}

function button(text, click, key, label = null) {
  return h("button", { class: "button tiny", type: "button", "aria-label": label, data: { key }, on: { click } }, text);
}
