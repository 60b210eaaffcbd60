// The figures of a chart as rows, and links that save them as CSV and JSON.
"use strict";
const chartRows = (() => {
  // A page's history is packed (charts.py, packed_history): with times, states and notes again, as all else takes it.
  function whole(chart) {
    if (chart.states === undefined) return chart;
    const {kind, title, unit, run, seconds, value, low, high, states, commits, degrees, remarks, ...rest} = chart;
    const names = {g: "good", r: "rerun", s: "spoiled", f: "failed"};
    let second = 0, commit = "";
    const time = seconds.map((step) => (step === null ? null : new Date(1000 * (second += step)).toISOString().slice(0, 19)));
    const note = run.map((number, i) => {
      if (commits[i] !== 0) commit = commits[i];
      const warm = degrees === null || degrees[i] === null ? "" : `${degrees[i]} °C`;
      return [`run ${number}`, commit && `commit ${commit}`, warm, remarks[i]].filter(Boolean).join(", ");
    });
    return {kind, title, unit, run, time, value, low: low || value, high: high || value,
      state: [...states].map((letter) => names[letter]), note, ...rest};
  }

  // Groups of values become a row each value; columns of one length become a row each place.
  function rows(chart) {
    if (chart.groups) return chart.groups.flatMap((group) => group.values.map((value) => ({group: group.name, value})));
    const columns = Object.entries(chart).filter(([, values]) => Array.isArray(values));
    const count = (chart.time || chart.names).length;
    const full = columns.filter(([, values]) => values.length === count && values.every((each) => each === null || typeof each !== "object"));
    return Array.from({length: count}, (_, i) => Object.fromEntries(full.map(([name, values]) => [name, values[i]])));
  }

  // A text that a spreadsheet would take for a formula gets an apostrophe.
  function cell(value) {
    if (value === null) return "";
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function csv(table) {
    const names = Object.keys(table[0] || {});
    return [names, ...table.map((row) => names.map((name) => row[name]))].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  function save(name, text, type) {
    const href = URL.createObjectURL(new Blob([text], {type}));
    Object.assign(document.createElement("a"), {href, download: name}).click();
    URL.revokeObjectURL(href);
  }

  function link(name, suffix, type, text) {
    const made = Object.assign(document.createElement("a"), {href: "#", textContent: suffix.toUpperCase()});
    made.addEventListener("click", (event) => {
      event.preventDefault();
      save(`${name}.${suffix}`, text(), type);
    });
    return made;
  }

  function offer(box, chart) {
    const place = box.querySelector(".chart-rows"), page = location.pathname.split("/").pop().replace(/\.html$/, "");
    const name = `${page}-${box.dataset.chart.replace(/^chart-/, "")}`;
    place.append("Figures: ", link(name, "csv", "text/csv", () => csv(rows(chart))), " ",
      link(name, "json", "application/json", () => JSON.stringify(rows(chart), null, 1)));
  }

  return {whole, rows, csv, offer};
})();
