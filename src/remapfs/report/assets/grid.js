// The grid: for each stack of layers a table of components by layers, and a list of what has no layer.
const stacks = new Map();
for (const family of families) {
  if (!stacks.has(family.stack)) stacks.set(family.stack, new Map());
  const components = stacks.get(family.stack);
  if (!components.has(family.component)) components.set(family.component, new Map());
  const layers = components.get(family.component);
  everyTensor(family, (numbers, state) => {
    const layer = numberAt(family.layer, numbers) ?? "";
    let tally = layers.get(layer);
    if (!tally) layers.set(layer, (tally = new Tally()));
    tally.add(state.mark, 1, family.bytes);
  });
}

const cells = new Map();
const cellKey = (stack, component, layer) => JSON.stringify([stack, component, layer]);

const place = (stack, component, layer, tally, holder) => {
  const where = layer === "" ? component : `layer ${layer}, ${component}`;
  const cell = tile(tally, {
    role: holder === "grid" ? "gridcell" : "button",
    tabindex: holder === "grid" ? -1 : 0,
    "aria-label": `${where}: ${tally.text()}`,
    "data-cell": cellKey(stack, component, layer),
  });
  cells.set(cell.dataset.cell, { cell, stack, component, layer, tally });
  return cell;
};

const row = (stack, component, layers, byLayer) => {
  const all = new Tally();
  for (const tally of byLayer.values()) {
    for (const [key, tensors] of tally.byMark) all.add(key, tensors, 0);
  }
  const line = make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader", title: component },
    make("code", {}, component)));
  for (const layer of layers) {
    const tally = byLayer.get(layer);
    line.append(make("td", { role: "presentation" }, tally ? place(stack, component, layer, tally, "grid") : ""));
  }
  line.append(make("td", { class: all.worst.fails ? "sum fails" : "sum", role: "presentation" }, shareOf(all)));
  return line;
};

// The share of the worst outcome; nothing where all is as it should be.
const shareOf = (tally) => {
  const { key, glyph } = tally.worst;
  if (tally.byMark.size > 1) return `${glyph} ${count(tally.byMark.get(key))} of ${count(tally.tensors)}`;
  return glyph && `${glyph} all`;
};

const axis = (layers) => {
  const head = make("tr", {}, make("th", {}, make("span", { class: "unseen" }, "component")));
  layers.forEach((layer, at) => {
    const shown = layers.length <= 12 || Number(layer) % 5 === 0;
    head.append(make("th", { scope: "col" }, shown ? make("span", {}, layer) : make("span", { class: "unseen" }, layer)));
  });
  head.append(make("th", {}, make("span", { class: "unseen" }, "share of the worst")));
  return make("thead", { role: "presentation" }, head);
};

const drawStack = (stack, components) => {
  const names = [...components.keys()].sort(inOrder);
  const holder = make("div", { class: "stack" });
  const status = make("p", { class: "status" });
  const detail = make("div", { class: "opened" });
  if (stack === "") {
    const list = make("ul", { class: "outside" });
    for (const name of names) {
      list.append(make("li", {}, place(stack, name, "", components.get(name).get(""), "list"), nameOf(name)));
    }
    holder.append(make("h3", {}, "Outside the layers"), list);
  } else {
    const layers = [...new Set(names.flatMap((name) => [...components.get(name).keys()]))].sort(inOrder);
    const body = make("tbody", { role: "presentation" });
    for (const name of names) body.append(row(stack, name, layers, components.get(name)));
    const table = make("table", { class: "layers", role: "grid", "aria-label": `${stack}: components by layers` },
      axis(layers), body);
    table.querySelector("[role=gridcell]")?.setAttribute("tabindex", "0");
    const extent = `${count(layers.length)} layer${layers.length === 1 ? "" : "s"}, ${count(names.length)} component${
      names.length === 1 ? "" : "s"}`;
    const title = make("h3", {}, make("code", {}, stack), make("span", { class: "amount" }, extent));
    holder.append(title, make("div", { class: "scroll" }, table));
  }
  holder.append(status, detail);
  const say = (event) => {
    const cell = event.target.closest("[data-cell]");
    if (cell) status.textContent = cell.getAttribute("aria-label");
  };
  holder.addEventListener("pointerover", say);
  holder.addEventListener("focusin", say);
  holder.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-cell]");
    if (cell) openCell(cell).scrollIntoView({ block: "nearest" });
  });
  return holder;
};

const outsideLast = ([a], [b]) => (a === "") - (b === "") || inOrder(a, b);
for (const [stack, components] of [...stacks].sort(outsideLast)) {
  document.getElementById("stacks").append(drawStack(stack, components));
}
