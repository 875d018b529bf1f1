// The tree of names on disk, and what the search finds.
const leafRow = (family, label) => {
  const tally = new Tally();
  const reasons = new Set();
  everyTensor(family, (_, state) => {
    tally.add(state.mark, 1, family.bytes);
    if (state.reason) reasons.add(state.reason);
  });
  const after = family.name && fill(family.name, family.axes.map(() => "{}"));
  const reason = tally.byMark.size === 1 && reasons.size === 1 ? [...reasons][0] : "";
  const same = family.source && fill(family.source, family.axes.map(() => "{}")) === after;
  return nameRow(tally, label, same || !family.source ? null : after, family.made, reason);
};

// The pieces of a template, cut at its dots.
const segments = (template) => {
  const cut = [[]];
  for (const piece of template) {
    if (typeof piece === "number") {
      cut.at(-1).push(piece);
      continue;
    }
    piece.split(".").forEach((text, at) => {
      if (at) cut.push([]);
      if (text) cut.at(-1).push(text);
    });
  }
  return cut;
};

const branch = () => ({ children: new Map(), leaves: [], slots: [], pieces: [] });

const grow = (root, family) => {
  let node = root;
  const path = segments(family.source ?? family.name);
  path.forEach((pieces, depth) => {
    const key = pieces.map((piece) => (typeof piece === "number" ? "{}" : piece)).join("");
    if (depth === path.length - 1) {
      const text = pieces.map((piece) => (typeof piece === "number" ? range(family.axes[piece]) : piece)).join("");
      node.leaves.push([text, family]);
      return;
    }
    if (!node.children.has(key)) node.children.set(key, branch());
    node = node.children.get(key);
    node.pieces = pieces;
    pieces.forEach((piece, at) => {
      if (typeof piece !== "number") return;
      node.slots[at] ??= new Set();
      family.axes[piece].forEach((number) => node.slots[at].add(number));
    });
  });
};

const labelOf = (node) => node.pieces.map((piece, at) =>
  (typeof piece === "number" ? range([...node.slots[at]].sort(inOrder)) : piece)).join("");

const tallyOf = (node, into = new Tally()) => {
  for (const [, family] of node.leaves) everyTensor(family, (_, state) => into.add(state.mark, 1, family.bytes));
  for (const child of node.children.values()) tallyOf(child, into);
  return into;
};

const drawNode = (name, node, depth) => {
  while (!node.leaves.length && node.children.size === 1) {
    [node] = node.children.values();
    name = `${name}.${labelOf(node)}`;
  }
  const details = make("details", { open: depth < 2 && node.children.size > 1 });
  const tally = tallyOf(node);
  details.append(make("summary", { class: "row" }, tile(tally, { "aria-hidden": "true" }),
    make("span", { class: "name" }, nameOf(name), make("span", { class: "unseen" }, `, ${tally.text()}`)),
    make("span", { class: "num" }, tensorsIn(tally.tensors)),
    make("span", { class: "num bytes" }, size(tally.bytes))));
  // Branches are drawn when they are first opened: a tree of thousands of patterns costs nothing until then.
  const draw = () => {
    if (details.childElementCount > 1) return;
    details.append(...drawChildren(node, depth + 1));
  };
  if (details.open) draw();
  details.addEventListener("toggle", draw);
  return details;
};

const drawChildren = (node, depth) => [
  ...[...node.children.values()].map((child) => [labelOf(child), child]).sort(([a], [b]) => inOrder(a, b))
    .map(([name, child]) => drawNode(name, child, depth)),
  ...node.leaves.sort(([a], [b]) => inOrder(a, b)).map(([label, family]) => leafRow(family, label)),
];

const onDisk = branch();
const nowhere = branch();
for (const family of families) grow(family.source ? onDisk : nowhere, family);
const tree = document.getElementById("tree");
tree.append(...drawChildren(onDisk, 0));
if (nowhere.children.size || nowhere.leaves.length) {
  tree.append(make("h3", {}, "Wanted, and not on disk"), ...drawChildren(nowhere, 0));
}

const query = document.getElementById("query");
const markSelect = document.getElementById("mark");
const occurring = new Set(data.states.map((state) => state.mark));
for (const mark of marks.values()) {
  if (occurring.has(mark.key)) markSelect.append(make("option", { value: mark.key }, mark.label));
}

const showButton = (family, numbers) => {
  const layer = numberAt(family.layer, numbers) ?? "";
  const button = make("button", { type: "button" }, "Show in the grid");
  button.addEventListener("click", () => {
    const { cell } = cells.get(cellKey(family.stack, family.component, layer));
    const panel = openCell(cell);
    const item = family.item === null ? null : panel.querySelector(
      `[data-part="${CSS.escape(family.part)}"][data-item="${CSS.escape(numberAt(family.item, numbers))}"]`);
    item?.click();
    moveTo(item ?? cell);
  });
  return button;
};

const resultRows = ({ family, state, tensors, first, seen }) => {
  const line = (text, amount, more) => {
    const tally = new Tally();
    tally.add(state.mark, amount, amount * family.bytes);
    return nameRow(tally, fill(family.source, text), fill(family.name, text), family.made, state.reason, more);
  };
  if (tensors <= FEW) return first.map((numbers) => line(numbers, 1, showButton(family, numbers)));
  return [line(seen.map((axis) => range([...axis])), tensors, null)];
};

const search = () => {
  const asked = query.value.trim() !== "" || markSelect.value !== "";
  const results = document.getElementById("results");
  const matches = document.getElementById("matches");
  tree.hidden = asked;
  if (!asked) {
    results.replaceChildren();
    matches.textContent = "";
    return;
  }
  const found = find(query.value, markSelect.value);
  const tensors = found.reduce((sum, each) => sum + each.tensors, 0);
  const rows = found.flatMap(resultRows);
  const more = rows.length > MOST_ROWS ? `; the first ${MOST_ROWS} lines are shown` : "";
  matches.textContent = tensors ? `${tensorsIn(tensors)} found${more}` : "No tensor has such a name.";
  results.replaceChildren(...rows.slice(0, MOST_ROWS));
};

let waiting = 0;
query.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(search, 150);
});
markSelect.addEventListener("change", search);
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  search();
});
