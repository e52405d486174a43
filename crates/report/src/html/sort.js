// Turns the headings of columns into buttons that sort their table.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent;
  };
  const compare = (one, other) => {
    // Unknown values come last in both orders.
    if (one === "" || other === "") return (one === "" ? 1 : 0) - (other === "" ? 1 : 0);
    return typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
  };
  for (const heading of table.querySelectorAll("th[data-sortable]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const column = heading.cellIndex;
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([one], [other]) => compare(one, other) * (down ? (one === "" || other === "" ? 1 : -1) : 1));
      body.append(...rows.map(([, row]) => row));
    });
  }
}
