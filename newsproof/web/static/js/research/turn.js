// One question and all that follows from it. Events may come again after a lost connection: every one of them has its
// place, and coming twice changes nothing.

import { h, replace, withCode, words } from "../dom.js";
import { confidence, known } from "../format.js";
import { t, term } from "../i18n.js";
import { alarm, announce, explained } from "../states.js";
import { answer } from "./answer.js";
import { agent, collected, decided, decision, outlookTag, plan } from "./steps.js";

const SCROLLING = new Set(["PageUp", "PageDown", "ArrowUp", "ArrowDown", "Home", "End"]);
const STAGES = ["routing", "planning", "data_collection", "analysis", "synthesis"];

export class Turn {
  /** `again(message)`: the question is to be put into the box once more. */
  constructor({ message, chatId = null, again }) {
    Object.assign(this, { message, chatId, answer: null, ended: false, stopped: false });
    this.stages = new Map();
    this.notes = new Set();
    this.question = words(message, "p", { class: "question-text" });
    this.list = h("ol", { class: "process-list" });
    this.count = h("span", { class: "small faint" });
    this.process = h("details", { class: "process", open: true }, h("summary", {}, t("process"), " ", this.count), this.list);
    this.state = h("p", { class: "turn-state state-dot busy" }, t("turn.sending"));
    this.result = h("div", { class: "turn-result" });
    this.again = () => again(this.message);
    this.element = h("article", { class: "turn", "aria-label": t("turn") },
      h("div", { class: "question" }, h("h2", { class: "unseen" }, t("turn.question")), this.question),
      this.process, this.state, this.result);
  }

  asked(message) {
    if (!message || this.message === message) return; // The list has its beginning only.
    this.message = message;
    replace(this.question, message);
  }

  fold() {
    this.process.open = false;
  }

  connection(now, { quiet = false } = {}) {
    if (this.ended) return;
    this.lost = now === "lost";
    this.drawState();
    // Once, however many attempts it takes until something comes again.
    if (this.lost && !this.toldLost && !quiet) announce(t("turn.lost"));
    this.toldLost ||= this.lost;
  }

  /** The server refused the stream for good. */
  refused(error) {
    this.finish();
    const [said, todo] = explained(error);
    this.fail(said, todo);
  }

  /** Take one event; true when it was the last. */
  take({ type, data = {} }, { quiet = false } = {}) {
    this.lost = this.toldLost = false;
    const say = quiet ? () => {} : announce;
    switch (type) {
      case "status": this.status(data, say); break;
      case "super_agent_decision": this.fill("routing", decision(data), decided(data)); break;
      case "planning_result": this.fill("planning", plan(data), (data.task_breakdown ?? []).map((one) => term(one.agent)).join(t("comma"))); break;
      case "data_collected": this.fill("data_collection", collected(data), dataInShort(data)); break;
      case "agent_result": this.agent(data, say); break;
      case "final_answer": this.final(data, say); break;
      case "error": this.fail(data.message || data.error, data.message ? data.error : ""); break;
      case "done": this.done(data, say); return true;
      default: break;
    }
    if (this.watched && this.answer === null) this.state.scrollIntoView({ block: "nearest" });
    return false;
  }

  /** Keep what happens in view, until the reader scrolls by hand. */
  watch(signal) {
    this.watched = true;
    const leave = () => { this.watched = false; };
    for (const moved of ["wheel", "touchmove"]) window.addEventListener(moved, leave, { once: true, passive: true, signal });
    window.addEventListener("keydown", (event) => SCROLLING.has(event.key) && leave(), { signal });
  }

  status(data, say) {
    this.asked(data.question);
    this.chatId ??= data.chat_id ?? null;
    const stage = this.stage(data.stage);
    for (const name of STAGES.slice(0, Math.max(0, STAGES.indexOf(data.stage)))) this.stages.get(name)?.item.classList.add("past");
    const key = `${data.stage} ${data.timestamp} ${data.message}`;
    this.said = data.message || t(`stage.${data.stage}`);
    if (!this.notes.has(key)) {
      this.notes.add(key);
      if (stage.told) stage.notes.append(words(data.message, "p", { class: "small note" }));
      stage.told = true;
      say(t(`stage.${data.stage}`));
    }
    this.drawState();
  }

  stage(name) {
    const known_one = this.stages.get(name);
    if (known_one) return known_one;
    const short = h("span", { class: "short small" });
    const inside = h("div", { class: "inside" });
    const notes = h("div", { class: "notes" });
    const details = h("details", {}, h("summary", {}, h("span", { class: "stage-name" }, t(`stage.${name}`)), " ", short), inside);
    const item = h("li", { class: `stage stage-${STAGES.includes(name) ? name : "other"}` }, details, notes);
    const made = { item, details, short, inside, notes, told: false };
    this.stages.set(name, made);
    const after = STAGES.slice(STAGES.indexOf(name) + 1).map((later) => this.stages.get(later)?.item).find(Boolean);
    this.list.insertBefore(item, after ?? null);
    replace(this.count, t("process.steps", { n: this.stages.size }));
    return made;
  }

  fill(name, content, short) {
    const stage = this.stage(name);
    replace(stage.inside, content);
    replace(stage.short, words(short ?? ""));
    stage.item.classList.add("past");
  }

  agent(data, say) {
    const stage = this.stage("analysis");
    stage.agents ??= new Map();
    const name = data.agent_name ?? data.agent ?? "?";
    const box = stage.agents.get(name) ?? h("li", { class: "agent" });
    const head = h("summary", {}, h("strong", {}, term(name)), " ", data.error ? h("span", { class: "tag bad" }, t("agent.failed")) : [outlookTag(data.signal), " ", h("span", { class: "small faint" }, known(data.confidence) ? confidence(data.confidence) : "")],
      h("span", { class: "agent-short small soft" }, words(inShort(data))));
    replace(box, h("details", {}, head, agent(data)));
    if (!stage.agents.has(name)) {
      stage.agents.set(name, box);
      stage.agentList ??= h("ul", { class: "agents" });
      if (!stage.agentList.isConnected) stage.item.insertBefore(stage.agentList, stage.notes);
      stage.agentList.append(box);
      say(`${term(name)}${t("colon")}${data.error ? t("agent.failed") : term(data.signal)}`);
    }
    replace(stage.short, t("agents.reported", { n: stage.agents.size }));
  }

  final(data, say) {
    this.answer = data.answer ?? "";
    const further = this.message && h("a", { href: `/investigations?subject=${encodeURIComponent(this.message.slice(0, 500))}` }, t("inquiry.look_into"));
    replace(this.result, answer(data, `turn-${this.chatId ?? "new"}`, further));
    if (this.watched) this.result.scrollIntoView({ block: "start" });
    say(t("turn.answered"));
  }

  done(data, say) {
    this.stopped = data.stopped === true;
    this.finish();
    if (this.stopped && this.answer === null) {
      replace(this.result, h("div", { class: "notice" }, h("p", {}, t("turn.stopped")), this.againButton()));
      say(t("turn.stopped"));
    }
  }

  finish() {
    this.ended = true;
    this.state.hidden = true;
    for (const { item } of this.stages.values()) item.classList.add("past");
    this.element.classList.add("ended");
  }

  fail(said, todo) {
    replace(this.result, h("div", { class: "notice error" }, words(withCode(said || t("error.unknown")), "p"), todo && words(withCode(todo), "p"), this.againButton()));
    alarm(said || t("error.unknown"));
  }

  againButton() {
    return h("p", {}, h("button", { class: "button tiny", type: "button", on: { click: this.again } }, t("turn.again")));
  }

  stopping(finish) {
    this.wanted = finish ? "turn.finishing" : "turn.stopping";
    this.drawState();
  }

  stoppingFailed() {
    this.wanted = null;
    this.drawState();
  }

  drawState() {
    this.state.hidden = this.ended;
    this.state.className = `turn-state state-dot ${this.lost ? "lost" : "busy"}`;
    replace(this.state, this.lost ? t("turn.lost") : this.wanted ? t(this.wanted) : words(this.said ?? t("turn.sending")));
  }
}

function inShort(data) {
  if (data.error) return String(data.message || data.error);
  const [said, whole] = [data.reasoning ?? "", data.full?.reasoning ?? data.full ?? ""];
  return typeof whole === "string" && whole.length > said.length ? `${said} …` : said;
}

function dataInShort(data) {
  const blocks = ["price", "macro", "fear_greed", "onchain", "indicators", "signals"].filter((name) => data[name]?.length > 0);
  const missing = data.unavailable?.length ?? 0;
  return [blocks.map((name) => t(`block.${name}`)).join(t("comma")), missing > 0 && t("data.missing", { n: missing })].filter(Boolean).join(" · ");
}
