// What the browser keeps between visits: language and theme. Either may be missing.

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
