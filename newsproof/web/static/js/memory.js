// What the browser keeps between visits: language and theme, and for one tab the access token. All of it may be missing.

export function remembered(name) {
  try {
    return localStorage.getItem(`newsproof.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`newsproof.${name}`);
    else localStorage.setItem(`newsproof.${name}`, value);
  } catch {
    // Storage may be shut off; the choice then holds until the page is closed.
  }
}

let token = null;
try {
  token = sessionStorage.getItem("newsproof.token");
} catch {
  // As above.
}

export const accessToken = () => token;

export function keepToken(value) {
  token = value || null;
  try {
    if (token) sessionStorage.setItem("newsproof.token", token);
    else sessionStorage.removeItem("newsproof.token");
  } catch {
    // As above.
  }
}
