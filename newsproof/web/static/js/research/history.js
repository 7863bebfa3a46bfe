// What is sent of the turns before a question: role and content alone, whole turns, the newest that the server takes.

const MESSAGES = 12;
const MESSAGE_CHARS = 64_000; // What the server takes of one message, and a body with room for the question beside it:
const BODY_BYTES = 200_000;

/** Only turns that have ended: of one that is still read, the answer would be missing. A stopped one is a question alone. */
export function chatHistory(turns) {
  const encoder = new TextEncoder();
  const kept = [];
  let bytes = 0;
  for (const turn of turns.filter((one) => one.ended && one.message).reverse()) {
    const said = [{ role: "user", content: cut(turn.message) }, ...(turn.answer ? [{ role: "assistant", content: cut(turn.answer) }] : [])];
    bytes += encoder.encode(JSON.stringify(said)).length;
    if (bytes > BODY_BYTES || kept.length + said.length > MESSAGES) break;
    kept.unshift(...said);
  }
  return kept;
}

/** Never through the middle of a character. */
const cut = (text) => text.slice(0, MESSAGE_CHARS).replace(/[\ud800-\udbff]$/, "");
