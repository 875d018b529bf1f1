// The keyboard: arrows in grids and in the tree, / for the search.
const moveTo = (cell) => {
  const grid = cell.closest("[role=grid]");
  grid?.querySelectorAll("[role=gridcell][tabindex='0']").forEach((other) => other.setAttribute("tabindex", "-1"));
  if (grid) cell.setAttribute("tabindex", "0");
  cell.focus();
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
};

// The cells of a row by their column: components that a layer lacks leave gaps.
const columnsOf = (line) =>
  [...line.children].map((child) => (child.matches("[role=gridcell]") ? child : child.querySelector("[role=gridcell]")));

const nearestIn = (line, column) => {
  const found = columnsOf(line);
  if (found[column]) return found[column];
  const places = found.keys().filter((at) => found[at]).toArray();
  return found[places.sort((a, b) => Math.abs(a - column) - Math.abs(b - column))[0]];
};

const neighbour = (cell, event) => {
  const line = cell.closest("[role=row]");
  const lines = [...cell.closest("[role=grid]").querySelectorAll("[role=row]")].filter((each) =>
    each.querySelector("[role=gridcell]"));
  const taken = columnsOf(line).filter(Boolean);
  const at = taken.indexOf(cell);
  const row = lines.indexOf(line);
  const column = columnsOf(line).indexOf(cell);
  switch (event.key) {
    case "ArrowLeft": return taken[at - 1];
    case "ArrowRight": return taken[at + 1];
    case "ArrowUp": return lines[row - 1] && nearestIn(lines[row - 1], column);
    case "ArrowDown": return lines[row + 1] && nearestIn(lines[row + 1], column);
    case "Home": return event.ctrlKey ? columnsOf(lines[0]).find(Boolean) : taken[0];
    case "End": return event.ctrlKey ? columnsOf(lines.at(-1)).findLast(Boolean) : taken.at(-1);
    default: return undefined;
  }
};

const inTree = (summary, key) => {
  const details = summary.parentElement;
  const visible = [...tree.querySelectorAll("summary")].filter((each) => each.checkVisibility());
  const at = visible.indexOf(summary);
  if (key === "ArrowDown") visible[at + 1]?.focus();
  else if (key === "ArrowUp") visible[at - 1]?.focus();
  else if (key === "ArrowRight") details.open ? visible[at + 1]?.focus() : (details.open = true);
  else if (details.open) details.open = false;
  else details.parentElement.closest("details")?.querySelector("summary").focus();
};

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (key === "/" && !target.matches("input, select, textarea") && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    query.focus();
    query.select();
  } else if (target === query && key === "Escape") {
    query.value = "";
    search();
  } else if (target.matches(".tile[tabindex]")) {
    if (key === "Enter" || key === " ") {
      event.preventDefault();
      target.click();
      if (target.dataset.cell) target.closest(".stack").querySelector(".opened h3").focus();
      return;
    }
    const next = target.matches("[role=gridcell]") && neighbour(target, event);
    if (next) {
      event.preventDefault();
      moveTo(next);
    }
  } else if (target.matches("#tree summary") && key.startsWith("Arrow")) {
    event.preventDefault();
    inTree(target, key);
  }
});
