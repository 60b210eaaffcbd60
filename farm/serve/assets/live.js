// Keeps the table of units as the service sees it, and filters it. Cells are replaced one by one, so that focus stays.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const table = document.getElementById("units");
  if (!table) return;
  const body = table.tBodies[0], live = document.getElementById("live"), form = document.querySelector(".sieve");
  const rows = new Map([...body.rows].map((row) => [row.dataset.name, row]));
  const maker = document.createElement("template");

  // Rows come escaped from the service, and the page's policy lets nothing in them run.
  function made(html) {
    maker.innerHTML = html;
    return maker.content.querySelector("tr");
  }

  function update(name, html) {
    const fresh = made(html), old = rows.get(name);
    if (!old) {
      rows.set(name, fresh);
      return;
    }
    old.dataset.state = fresh.dataset.state;
    let is_changed = false;
    [...fresh.cells].forEach((cell, place) => {
      if (old.cells[place].innerHTML === cell.innerHTML) return;
      old.cells[place].innerHTML = cell.innerHTML;
      is_changed = is_changed || place === 2;
    });
    old.classList.toggle("changed", is_changed);
  }

  function order(names) {
    const known = new Set(names);
    for (const [name, row] of rows) {
      if (known.has(name)) continue;
      row.remove();
      rows.delete(name);
    }
    names.forEach((name, place) => {
      const row = rows.get(name);
      if (row && body.rows[place] !== row) body.insertBefore(row, body.rows[place] || null);
    });
  }

  function tally() {
    const counts = new Map();
    for (const row of rows.values()) counts.set(row.dataset.state, (counts.get(row.dataset.state) || 0) + 1);
    const items = [...counts].sort((one, other) => other[1] - one[1]).map(([state, count]) => {
      const item = document.createElement("li"), number = document.createElement("b");
      number.textContent = count;
      item.append(number, ` ${state}`);
      return item;
    });
    document.getElementById("tally").replaceChildren(...items);
    document.getElementById("count").textContent = rows.size;
    document.getElementById("none")?.remove();
  }

  function filter() {
    const sought = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = form.elements.state.value;
    let shown = 0;
    for (const row of rows.values()) {
      const text = sought.length ? row.textContent.toLowerCase() : "";
      row.hidden = !(sought.every((word) => text.includes(word)) && (!state || row.dataset.state === state));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = shown === rows.size ? "" : `${shown} of ${rows.size} units`;
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();

  const source = new EventSource(`/events?after=${table.dataset.version}`);
  source.addEventListener("open", () => {
    live.textContent = "live";
    live.classList.add("on");
  });
  source.addEventListener("error", () => {
    live.textContent = "the service does not answer; trying again";
    live.classList.remove("on");
  });
  source.addEventListener("units", (event) => {
    const told = JSON.parse(event.data);
    for (const [name, html] of Object.entries(told.units)) update(name, html);
    order(told.names);
    tally();
    filter();
    document.getElementById("trouble").textContent = told.error;
    table.dataset.version = told.version;
  });
});
