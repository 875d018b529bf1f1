// What one tile holds: its names, and where it has items (experts), a grid of items for each part.
const ACROSS = 24;

const within = (family, opened) =>
  family.stack === opened.stack && family.component === opened.component
  && (family.layer === null || typeof family.layer === "number" || family.layer === opened.layer);

const inLayer = (family, opened, visit) => everyTensor(family, (numbers, state) => {
  if ((numberAt(family.layer, numbers) ?? "") === opened.layer) visit(numbers, state);
});

const nameRow = (tally, before, after, made, reason, more = null) => {
  const text = make("span", { class: "name" }, before === null ? "nothing on disk" : nameOf(before));
  if (after !== null && after !== before) text.append(" → ", make("span", { class: "after" }, nameOf(after)));
  if (made) text.append(" ", make("span", { class: "made" }, made));
  const outcome = tally.byMark.size === 1 ? tally.worst.label : tally.text();
  text.append(make("span", { class: "reason" }, reason ? `${outcome}: ${reason}` : outcome, more));
  return make("div", { class: "row" }, tile(tally, { "aria-hidden": "true" }), text,
    make("span", { class: "num" }, tensorsIn(tally.tensors)),
    make("span", { class: "num bytes" }, size(tally.bytes)));
};

// One line for the tensors of a family that `keep` takes and that came out alike.
const patternRows = (opened, keep) => {
  const rows = [];
  for (const family of families.filter((each) => within(each, opened))) {
    const found = new Map();
    inLayer(family, opened, (numbers, state) => {
      if (!keep(family, numbers)) return;
      if (!found.has(state)) found.set(state, { tally: new Tally(), seen: family.axes.map(() => new Set()) });
      const group = found.get(state);
      group.tally.add(state.mark, 1, family.bytes);
      group.seen.forEach((axis, at) => axis.add(numbers[at]));
    });
    for (const [state, { tally, seen }] of found) {
      const text = seen.map((axis) => range([...axis]));
      rows.push([tally.worst.rank, nameRow(tally, fill(family.source, text), fill(family.name, text), family.made,
        state.reason)]);
    }
  }
  return rows.sort(([a], [b]) => a - b).map(([, element]) => element);
};

const itemGrid = (part, items, opened) => {
  const numbers = [...items.keys()].sort(inOrder);
  const grid = make("div", { class: "items", role: "grid", "aria-label": `${part || opened.component}: items` });
  for (let start = 0; start < numbers.length; start += ACROSS) {
    const line = make("div", { role: "row" },
      make("span", { class: "at", role: "rowheader" }, numbers[start]));
    for (const number of numbers.slice(start, start + ACROSS)) {
      const tally = items.get(number);
      line.append(tile(tally, { role: "gridcell", tabindex: -1, "data-item": number, "data-part": part,
        "aria-label": `item ${number}, ${part || opened.component}: ${tally.text()}` }));
    }
    grid.append(line);
  }
  (grid.querySelector(".tile:not([data-mark=loads]):not([data-mark=renamed])") ?? grid.querySelector(".tile"))
    .setAttribute("tabindex", "0");
  return make("div", {}, make("h4", {}, part ? nameOf(part) : "all"), grid);
};

const itemGrids = (opened) => {
  const parts = new Map();
  for (const family of families.filter((each) => each.item !== null && within(each, opened))) {
    if (!parts.has(family.part)) parts.set(family.part, new Map());
    const items = parts.get(family.part);
    inLayer(family, opened, (numbers, state) => {
      const number = numberAt(family.item, numbers);
      if (!items.has(number)) items.set(number, new Tally());
      items.get(number).add(state.mark, 1, family.bytes);
    });
  }
  const drawn = [...parts].filter(([, items]) => items.size).sort(([a], [b]) => inOrder(a, b));
  if (!drawn.length) return null;
  const chosen = make("div", { role: "status" });
  const status = make("p", { class: "status" });
  const holder = make("div", {}, make("div", { class: "parts" },
    ...drawn.map(([part, items]) => itemGrid(part, items, opened))), status, chosen);
  const say = (event) => {
    const item = event.target.closest("[data-item]");
    if (item) status.textContent = item.getAttribute("aria-label");
  };
  holder.addEventListener("pointerover", say);
  holder.addEventListener("focusin", say);
  holder.addEventListener("click", (event) => {
    const item = event.target.closest("[data-item]");
    if (!item) return;
    event.stopPropagation();
    select(item, holder);
    chosen.replaceChildren(...patternRows(opened, (family, numbers) =>
      family.part === item.dataset.part && numberAt(family.item, numbers) === item.dataset.item));
  });
  return holder;
};

const select = (cell, among) => {
  among.querySelectorAll("[aria-selected=true]").forEach((other) => other.removeAttribute("aria-selected"));
  cell.setAttribute("aria-selected", "true");
};

const openCell = (cell) => {
  const opened = cells.get(cell.dataset.cell);
  const stack = cell.closest(".stack");
  select(cell, stack);
  const where = opened.layer === "" ? opened.component : `Layer ${opened.layer} · ${opened.component}`;
  const close = make("button", { type: "button" }, "Close");
  const title = make("h3", { tabindex: -1 }, where);
  const grids = itemGrids(opened);
  const rows = patternRows(opened, () => true);
  const names = grids && rows.length > 8
    ? make("details", {}, make("summary", {}, `${rows.length} patterns of names`), ...rows)
    : make("div", {}, ...rows);
  const panel = make("section", { class: "detail", "aria-label": where }, make("header", {}, title, close),
    make("p", {}, `${opened.tally.text()} · ${size(opened.tally.bytes)}`), grids, names);
  const shut = () => {
    panel.remove();
    cell.removeAttribute("aria-selected");
    cell.focus();
  };
  close.addEventListener("click", shut);
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") shut();
  });
  stack.querySelector(".opened").replaceChildren(panel);
  return panel;
};
