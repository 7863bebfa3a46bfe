// Runs before the first paint, so that a chosen theme does not flash. Without a choice the system's holds.
(() => {
  try {
    const chosen = localStorage.getItem("newsproof.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be shut off; the page works without a memory.
  }
})();
