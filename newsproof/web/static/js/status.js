// What the system last said of itself, for whoever shows a part of it.

let last = null;
const told = new EventTarget();

export const lastStatus = () => last;

export function tellStatus(status) {
  last = status;
  told.dispatchEvent(new Event("status"));
}

/** Call `look(status)` once, when the system says it the next time. */
export const nextStatus = (look) => told.addEventListener("status", () => look(last), { once: true });

/** Call `look(status)` once: now, or when something is known. */
export const whenKnown = (look) => (last === null ? nextStatus(look) : look(last));

/** Call `look(status)` now, where something is known, and whenever it changes. */
export function onStatus(look, signal) {
  if (last !== null) look(last);
  told.addEventListener("status", () => look(last), { signal });
}
