// Keeps a page's live table as the service sees it, and filters it. Cells are replaced one by one, so that focus stays.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.live");
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
    const is_changed = old.dataset.state !== fresh.dataset.state;
    Object.assign(old.dataset, fresh.dataset);
    [...fresh.cells].forEach((cell, place) => {
      if (old.cells[place].innerHTML !== cell.innerHTML) old.cells[place].innerHTML = cell.innerHTML;
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
    document.getElementById("count").textContent = rows.size;
    document.getElementById("none").hidden = rows.size > 0;
    const counts = new Map(), list = document.getElementById("tally");
    for (const row of rows.values()) counts.set(row.dataset.state, (counts.get(row.dataset.state) || 0) + 1);
    const items = [...counts].sort((one, other) => other[1] - one[1]).map(([state, count]) => {
      const item = document.createElement("li"), number = document.createElement("b");
      number.textContent = count;
      item.append(number, ` ${state}`);
      return item;
    });
    list?.replaceChildren(...items);
  }

  // Hosts come and go; one that is chosen stays.
  function hosts() {
    const select = form?.elements.host;
    if (!select) return;
    const known = new Set([...select.options].map((option) => option.value));
    for (const row of rows.values()) {
      const host = row.dataset.host;
      if (!host || known.has(host)) continue;
      select.add(new Option(host));
      known.add(host);
    }
  }

  function filter() {
    if (!form) return;
    const sought = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")].filter((select) => select.value);
    let shown = 0;
    for (const row of rows.values()) {
      const text = sought.length ? row.textContent.toLowerCase() : "";
      const fits = chosen.every((select) => row.dataset[select.name] === select.value);
      row.hidden = !(fits && sought.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = shown === rows.size ? "" : `${shown} of ${rows.size} units`;
  }

  form?.addEventListener("input", filter);
  form?.addEventListener("submit", (event) => event.preventDefault());
  filter();

  const kind = table.dataset.events;
  const source = new EventSource(`${document.documentElement.dataset.base}/events?after=${table.dataset.version}`);
  source.addEventListener("open", () => {
    live.textContent = "live";
    live.classList.add("on");
  });
  source.addEventListener("error", () => {
    live.textContent = "the service does not answer; trying again";
    live.classList.remove("on");
  });
  source.addEventListener(kind, (event) => {
    const told = JSON.parse(event.data);
    for (const [name, html] of Object.entries(told[kind])) update(name, html);
    order(told.names);
    tally();
    hosts();
    filter();
    document.getElementById("trouble").textContent = told.error;
    table.dataset.version = told.version;
  });
});
