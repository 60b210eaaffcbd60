// Tables that are sorted by their column heads and filtered by the form above them.
"use strict";
(() => {
  const words = new Intl.Collator(undefined, {numeric: true, sensitivity: "base"});

  function value(row, column) {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  }

  function sort(table, column, descending) {
    const body = table.tBodies[0], sign = descending ? -1 : 1;
    const rows = [...body.rows].map((row, place) => ({row, place, value: value(row, column)}));
    rows.sort((one, other) => {
      const order = typeof one.value === "number" ? one.value - other.value : words.compare(one.value, other.value);
      return sign * order || one.place - other.place;
    });
    body.append(...rows.map((each) => each.row));
  }

  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((each) => each.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sort(table, column, descending);
      });
    });
  }

  function makeFilter(form) {
    const rows = [...document.getElementById(form.dataset.for).tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const filter = () => {
      const sought = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const verdict = form.elements.verdict.value, device = form.elements.device ? form.elements.device.value : "";
      let shown = 0;
      rows.forEach((row, place) => {
        const fits = sought.every((word) => texts[place].includes(word))
          && (!verdict || row.dataset.verdict === verdict) && (!device || row.dataset.device === device);
        row.hidden = !fits;
        shown += fits;
      });
      form.querySelector("output").textContent =
        shown === rows.length ? `${shown} series` : `${shown} of ${rows.length} series`;
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();  // a browser may have kept what was typed before
  }

  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("form.filters").forEach(makeFilter);
})();
