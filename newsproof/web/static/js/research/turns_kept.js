// The turns that this tab has asked, by conversation: a reload right after a question finds it before the list does.

const NAME = "newsproof.turns";
const MOST = 50;

function all() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

export function knownTurns(conversation) {
  return all().filter((one) => one.conversation === conversation);
}

export function rememberTurn(conversation, chatId, message) {
  try {
    sessionStorage.setItem(NAME, JSON.stringify([...all(), { conversation, chat_id: chatId, message }].slice(-MOST)));
  } catch {
    // Storage may be shut off or full; the server's list has the turn a moment later.
  }
}
