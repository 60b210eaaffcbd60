// The theme, before anything is drawn: the system's, or the one that was chosen with the button, which is remembered.
"use strict";
(() => {
  const KEY = "farm-theme", ORDER = ["auto", "light", "dark"];
  const NAMES = {auto: "automatic", light: "light", dark: "dark"};
  const root = document.documentElement;

  function stored() {
    try { return localStorage.getItem(KEY); } catch { return null; }  // forbidden by the browser's settings
  }
  function remember(choice) {
    try { localStorage.setItem(KEY, choice); } catch { /* it holds for this page alone */ }
  }
  let choice = ORDER.includes(stored()) ? stored() : "auto";

  function apply() {
    if (choice === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", choice);
    const button = document.getElementById("theme");
    if (button) {
      const next = ORDER[(ORDER.indexOf(choice) + 1) % ORDER.length];
      button.textContent = `Theme: ${NAMES[choice]}`;
      button.title = `Switch to ${NAMES[next]}`;
    }
    document.dispatchEvent(new Event("themechange"));
  }
  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      choice = ORDER[(ORDER.indexOf(choice) + 1) % ORDER.length];
      remember(choice);
      apply();
    });
  });
})();
