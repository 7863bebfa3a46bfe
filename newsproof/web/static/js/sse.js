// Server-sent events over fetch: unlike EventSource it can POST, carry a token, and say why a stream was refused.
// A lost connection is taken up again after the last event that was seen (Last-Event-ID), as often as it takes.

import { ApiError } from "./api.js";

const SILENCE_MS = 45_000; // The server's heartbeats come at least every 15 s; three missing ones are a dead line.
const LONGEST_WAIT_MS = 8_000;

/** Takes the text of a stream apart, as the HTML standard says. `id` is that of the last block that came whole. */
export class Parser {
  #rest = "";
  #data = [];
  #event = "";
  #id;

  constructor(id = null) {
    this.id = id;
    this.#id = id;
  }

  push(text, emit) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line, emit);
  }

  #line(line, emit) {
    if (line === "") {
      this.id = this.#id;
      if (this.#data.length) emit({ event: this.#event || "message", data: this.#data.join("\n"), id: this.id });
      this.#data = [];
      this.#event = "";
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }
}

/**
 * Read a stream until `onEvent` returns true, or `signal` aborts. `open(lastId, attempt, signal)` returns the response.
 * `onState` hears "open" and "lost"; `place.id` is where to resume. Throws an ApiError when the server refuses for good.
 */
export async function follow(open, { onEvent, onState = () => {}, signal, place = { id: null } }) {
  let failures = 0;
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    try {
      const ended = await once(open, { place, attempt, signal }, () => onState("open"), (message) => {
        failures = 0;
        return onEvent(message);
      });
      if (ended) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && !error.passing) throw error;
      failures = Math.max(failures, error.retryAfter ? 3 : 0);
    }
    if (signal.aborted) return;
    onState("lost");
    await pause(Math.min(LONGEST_WAIT_MS, 250 * 2 ** failures), signal);
    failures += 1;
  }
}

async function once(open, { place, attempt, signal }, opened, onEvent) {
  const line = new AbortController();
  const cut = () => line.abort();
  signal.addEventListener("abort", cut, { once: true });
  let watch = setTimeout(cut, SILENCE_MS);
  try {
    const response = await open(place.id, attempt, line.signal);
    opened(response);
    if (response.status === 204) return true; // All of it was sent before.
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser(place.id);
    let ended = false;
    while (!ended) {
      const { value, done } = await reader.read();
      if (done) return false;
      clearTimeout(watch);
      watch = setTimeout(cut, SILENCE_MS);
      parser.push(value, (message) => {
        if (!ended) ended = onEvent(message) === true;
      });
      place.id = parser.id;
    }
    return true;
  } finally {
    clearTimeout(watch);
    signal.removeEventListener("abort", cut);
    line.abort();
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    window.addEventListener("online", end);
    signal.addEventListener("abort", end);
  });
}
