// A tone or a notification for what comes in and fits the filters. Permission is asked for on a click alone.

import { h, replace } from "../dom.js";
import { confidence } from "../format.js";
import { summaryOf, t, term } from "../i18n.js";
import { remember, remembered } from "../memory.js";
import { verdictWords } from "../signal_row.js";

const QUIET_MS = 2_000; // Several at once are one tone and one notification.
const TONES_HZ = [660, 880];

export class Alerts {
  /** `choose(signal)`: what a click on a notification does. */
  constructor(choose, gone) {
    this.choose = choose;
    this.sound = remembered("sound") === "1";
    this.notify = remembered("notify") === "1" && permission() === "granted";
    this.waiting = [];
    this.said = h("p", { class: "hint", role: "status" });
    const button = (name, click) => h("button", { class: "button quiet tiny", type: "button", title: t(`alert.${name}.long`), on: { click } }, t(`alert.${name}`));
    this.buttons = { sound: button("sound", () => this.toggleSound()), notify: button("notify", () => this.toggleNotify()) };
    this.node = h("div", { class: "alerts" }, this.buttons.sound, this.buttons.notify);
    gone.addEventListener("abort", () => {
      clearTimeout(this.timer);
      this.context?.close();
    });
    this.draw();
    // A browser lets a page sound only after a click on it: after a reload that has to be said.
    if (this.sound) {
      this.say(t("alert.sound.click"));
      document.addEventListener("pointerdown", () => this.open().then((can) => can && this.say("")), { once: true, signal: gone });
    }
  }

  get wanted() {
    return this.sound || this.notify;
  }

  async toggleSound() {
    this.sound = !this.sound;
    if (this.sound && !(await this.open())) {
      this.sound = false;
      this.say(t("alert.sound.blocked"));
    } else {
      this.say("");
      if (this.sound) this.play();
    }
    remember("sound", this.sound ? "1" : null);
    this.draw();
  }

  async toggleNotify() {
    let can = permission();
    if (!this.notify && can === "default") can = await Notification.requestPermission();
    this.notify = !this.notify && can === "granted";
    this.say(can === "denied" ? t("alert.notify.blocked") : can === "none" ? t("alert.notify.none") : "");
    remember("notify", this.notify ? "1" : null);
    this.draw();
  }

  draw() {
    for (const name of ["sound", "notify"]) this.buttons[name].setAttribute("aria-pressed", String(this[name]));
  }

  say(text) {
    replace(this.said, text);
  }

  came(signal) {
    if (!this.wanted) return;
    this.waiting.push(signal);
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.raise(this.waiting.splice(0));
    }, this.last && Date.now() - this.last < QUIET_MS ? QUIET_MS : 50);
  }

  raise(all) {
    this.last = Date.now();
    if (this.sound) this.play();
    if (!this.notify || permission() !== "granted") return;
    const newest = all[all.length - 1];
    const body = all.length > 1 ? t("live.new", { n: all.length }) : summaryOf(newest);
    const shown = new Notification(`${newest.asset} ${term(newest.action)} ${confidence(newest.confidence)} · ${verdictWords(newest)}`, { body, tag: "newsproof" });
    shown.addEventListener("click", () => {
      window.focus();
      this.choose(newest);
    });
  }

  async open() {
    try {
      this.context ??= new AudioContext();
      await this.context.resume();
      return this.context.state === "running";
    } catch {
      return false;
    }
  }

  play() {
    if (this.context?.state !== "running") return;
    TONES_HZ.forEach((hz, at) => {
      const [tone, volume, from] = [this.context.createOscillator(), this.context.createGain(), this.context.currentTime + at * 0.12];
      tone.frequency.value = hz;
      volume.gain.setValueAtTime(0.12, from);
      volume.gain.exponentialRampToValueAtTime(0.001, from + 0.18);
      tone.connect(volume).connect(this.context.destination);
      tone.start(from);
      tone.stop(from + 0.2);
    });
  }
}

const permission = () => ("Notification" in window && window.isSecureContext ? Notification.permission : "none");
