// One investigation: what it does while it runs, and its brief. It lives on the server: leaving the page, reloading it or
// losing the connection does not end it, and coming back shows it from its start. Events may come again and change nothing.

import { postJson, request } from "../api.js";
import { h, replace, withCode, words } from "../dom.js";
import { cost, dateTime, duration, known, number } from "../format.js";
import { t } from "../i18n.js";
import { follow } from "../sse.js";
import { alarm, announce, explained, failed } from "../states.js";
import { brief } from "./brief.js";
import { ask, go } from "./form.js";
import { stateDot } from "./list.js";
import { thoughtStep } from "./steps.js";

export class Investigation {
  constructor(main, { rest, signal, setTitle }) {
    Object.assign(this, { id: rest[0], signal, setTitle, seen: new Map(), ended: false });
    this.title = h("h1", {}, t("inquiry.single"));
    this.about = h("div", { class: "inquiry-about small soft" });
    this.buttons = h("div", { class: "row" });
    this.state = h("p", { class: "turn-state state-dot busy" }, t("loading"));
    this.result = h("div", { class: "inquiry-result" });
    this.list = h("ol", { class: "process-list" });
    this.count = h("span", { class: "small faint" });
    this.process = h("details", { class: "process", open: true }, h("summary", {}, t("inquiry.steps"), " ", this.count), this.list);
    main.append(h("div", { class: "page-head" }, this.title, h("a", { href: "/investigations" }, t("inquiry.back"))), this.about, this.buttons, this.state, this.result, this.process);
    setTitle(t("inquiry.single"));
    this.follow();
  }

  async follow() {
    const open = (lastId, _attempt, signal) => request(`investigations/${encodeURIComponent(this.id)}`, { signal, headers: lastId === null ? {} : { "Last-Event-ID": lastId } });
    try {
      await follow(open, { signal: this.signal, onState: (now) => this.connection(now), onEvent: ({ event, data }) => this.take(event, data) });
    } catch (error) {
      if (this.signal.aborted) return;
      this.state.hidden = true;
      replace(this.result, failed(error));
    }
  }

  connection(now) {
    if (this.ended) return;
    this.lost = now === "lost";
    if (this.lost && !this.toldLost) announce(t("turn.lost"));
    this.toldLost ||= this.lost;
    this.drawState();
  }

  /** Take one event; true when it was the last. */
  take(event, text) {
    let data = null;
    try {
      data = JSON.parse(text).data ?? {};
    } catch {
      return false;
    }
    this.lost = this.toldLost = false;
    if (event === "status") this.status(data);
    if (event === "thought_step") this.step(data);
    if (event === "brief") replace(this.result, brief(data, this.id));
    if (event === "error") this.fail(data);
    if (event === "done") this.done(data);
    return event === "done";
  }

  status(data) {
    if (data.question) this.asked(data);
    this.said = data.message;
    this.drawState();
  }

  asked(data) {
    this.question = data.question;
    replace(this.title, words(data.subject));
    this.setTitle(data.subject);
    replace(this.about, data.question !== data.subject && [words(data.question), " · "], t("inquiry.of", { at: dateTime(data.as_of) }),
      data.limits && ` · ${t("inquiry.within", { rounds: data.limits.rounds, searches: data.limits.searches })}`, data.watch && ` · ${t("inquiry.by_watch")}`);
    this.drawButtons();
  }

  step(data) {
    const item = thoughtStep(data);
    const before = this.seen.get(data.id);
    if (before) return;
    this.seen.set(data.id, item);
    this.list.append(item);
    replace(this.count, t("process.steps", { n: this.seen.size }));
  }

  fail(data) {
    const said = data.message || t("error.unknown");
    replace(this.result, h("div", { class: "notice error" }, words(withCode(said), "p"), h("p", {}, t("inquiry.failed.do"))));
    alarm(said);
  }

  done(data) {
    this.ended = true;
    if (data.state === "stopped") replace(this.result, h("div", { class: "notice" }, h("p", {}, t("inquiry.stopped"))));
    else if (data.state === "finished") announce(t("inquiry.finished"));
    this.process.open = data.state !== "finished";
    const tokens = (data.tokens?.input ?? 0) + (data.tokens?.output ?? 0);
    this.state.className = "turn-state row";
    replace(this.state, stateDot(data.state), h("span", { class: "small faint" }, [known(data.seconds) && duration(data.seconds * 1000), cost(data.cost_usd), t("inquiry.tokens", { n: tokens, count: number(tokens) })].filter(Boolean).join(" · ")));
    this.drawButtons();
  }

  drawState() {
    if (this.ended) return;
    this.state.className = `turn-state state-dot ${this.lost ? "lost" : "busy"}`;
    replace(this.state, this.lost ? t("turn.lost") : this.wanted ? t(this.wanted) : words(this.said || t("loading")));
  }

  drawButtons() {
    const held = this.buttons.contains(document.activeElement);
    const button = (name, click, kind = "quiet") => h("button", { class: `button tiny ${kind}`, type: "button", on: { click } }, t(name));
    const watch = h("a", { class: "button tiny quiet", href: `/investigations?subject=${encodeURIComponent(this.question ?? "")}&every=6` }, t("inquiry.watch_it"));
    replace(this.buttons, this.ended ? [button("inquiry.again", () => this.again()), watch] : [button("stop", () => this.stop(false)), button("inquiry.finish", () => this.stop(true))]);
    if (held) this.buttons.querySelector("button").focus();
  }

  async stop(finish) {
    this.wanted = finish ? "inquiry.finishing" : "turn.stopping";
    announce(t(this.wanted));
    this.drawState();
    try {
      await postJson(`investigations/${encodeURIComponent(this.id)}/stop`, undefined, finish ? { finish: true } : {});
    } catch (error) {
      const [said, todo] = explained(error);
      if (error.status === 409) announce(said);
      else alarm(`${said} ${todo}`);
      this.wanted = null;
      this.drawState();
    }
  }

  /** The same question as of now; its brief says what is new since this one. */
  async again() {
    this.againKey ??= crypto.randomUUID?.() ?? String(Date.now());
    try {
      go(await ask({ subject: this.question, previous: this.id }, this.againKey, this.signal));
    } catch (error) {
      if (!this.signal.aborted) this.buttons.append(failed(error));
    }
  }
}
