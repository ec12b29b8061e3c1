// Tables of class "sortable": a click on a heading sorts by its column, by the first number of a cell where there is one.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const key = (row) => {
        const text = row.cells[column].textContent.trim();
        const found = text.replace(/(\d),(?=\d{3})/g, "$1").match(/(?<![\w.])[-+]?\d+(\.\d+)?/);
        return column && found ? Number(found[0]) : column ? null : text;
      };
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        const order = typeof x === "string" ? x.localeCompare(y) : x - y;
        return up ? order : -order;
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
}
