// Requests to the API of this host. Every failure is an ApiError that says what happened and what to do next.

const ROOT = new URL("/api/v1/", location.href);

export class ApiError extends Error {
  /** `status` is 0 where the server could not be reached at all; `chatId` names the chat or investigation that may continue nevertheless. */
  constructor(message, { status = 0, todo = "", retryAfter = null, chatId = null } = {}) {
    super(message);
    this.status = status;
    this.todo = todo;
    this.retryAfter = retryAfter;
    this.chatId = chatId;
  }

  get passing() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Send a request; the response is a good one, or this throws. */
export async function request(path, { query, method = "GET", body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    const init = { method, headers: sent, signal, cache: "no-store", credentials: "same-origin", redirect: "error" };
    if (body !== undefined) init.body = JSON.stringify(body);
    response = await fetch(address(path, query), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable");
  }
  if (response.ok) return response;
  throw await refused(response);
}

async function refused(response) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // A proxy or a crash answers with something else than JSON.
  }
  const after = Number(response.headers.get("Retry-After"));
  return new ApiError(typeof said.error === "string" ? said.error : `HTTP ${response.status}`, {
    status: response.status,
    todo: typeof said.do === "string" ? said.do : "",
    retryAfter: Number.isFinite(after) && after > 0 ? after : null,
    chatId: response.headers.get("X-Chat-Id") ?? [said.chat_id, said.investigation_id].find((id) => typeof id === "string") ?? null,
  });
}

export async function getJson(path, query, signal) {
  return read(await request(path, { query, signal }));
}

export async function postJson(path, body, query, signal) {
  return read(await request(path, { method: "POST", body, query, signal }));
}

async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable");
  }
}
