// What the page carries: families of tensors, each a template with axes and a state for every combination.
const data = JSON.parse(document.getElementById("data").textContent);
const marks = new Map(data.marks.map((mark, rank) => [mark.key, { ...mark, rank }]));
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ABSENT = 255;

const expand = (ranges) =>
  ranges.split(",").flatMap((range) => {
    const [low, high] = range.split("-");
    if (high === undefined) return [low];
    return Array.from({ length: high - low + 1 }, (_, more) => String(Number(low) + more));
  });

const decode = (runs, length) => {
  const states = new Uint8Array(length);
  let at = 0;
  for (const [, letter, times] of runs.matchAll(/([a-zA-Z.])(\d*)/g)) {
    const end = at + Number(times || 1);
    states.fill(letter === "." ? ABSENT : LETTERS.indexOf(letter), at, end);
    at = end;
  }
  return states;
};

const families = data.families.map((written) => {
  const axes = written.axes.map(expand);
  const places = axes.reduce((product, axis) => product * axis.length, 1);
  const [stack, layer, component, item, part, leaf] = written.place;
  return { ...written, axes, stack, layer, component, item, part, leaf, states: decode(written.states, places) };
});

// Call visit(numbers, state) for every tensor of a family; `numbers` is the same array each time.
const everyTensor = (family, visit) => {
  const { axes, states } = family;
  const at = axes.map(() => 0);
  const numbers = axes.map((axis) => axis[0]);
  for (const state of states) {
    if (state !== ABSENT) visit(numbers, data.states[state]);
    for (let axis = axes.length - 1; axis >= 0; axis -= 1) {
      at[axis] = (at[axis] + 1) % axes[axis].length;
      numbers[axis] = axes[axis][at[axis]];
      if (at[axis]) break;
    }
  }
};

const fill = (template, numbers) =>
  template && template.map((piece) => (typeof piece === "number" ? numbers[piece] : piece)).join("");

const numberAt = (which, numbers) => (typeof which === "number" ? numbers[which] : which);

const inOrder = new Intl.Collator("en", { numeric: true }).compare;

const ranges = (numbers) => {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && String(Number(last[1]) + 1) === number) last[1] = number;
    else runs.push([number, number]);
  }
  const text = runs.map(([low, high]) => (low === high ? low : `${low}-${high}`));
  if (text.length > 6) return `${numbers[0]}-${numbers.at(-1)}: ${numbers.length} of them`;
  return text.join(",");
};

const range = (numbers) => (numbers.length === 1 ? numbers[0] : `{${ranges(numbers)}}`);

// How many tensors have which mark; the mark of the lowest rank is the worst.
class Tally {
  tensors = 0;
  bytes = 0;
  byMark = new Map();

  add(key, tensors, bytes) {
    this.tensors += tensors;
    this.bytes += bytes;
    this.byMark.set(key, (this.byMark.get(key) ?? 0) + tensors);
  }

  get worst() {
    return [...this.byMark.keys()].map((key) => marks.get(key)).reduce((a, b) => (a.rank < b.rank ? a : b));
  }

  get part() {
    return this.worst.fails && this.byMark.size > 1;
  }

  text() {
    const listed = [...this.byMark].map(([key, tensors]) => [marks.get(key), tensors]);
    listed.sort(([a], [b]) => a.rank - b.rank);
    if (listed.length === 1) return this.tensors === 1 ? listed[0][0].label : `all ${amount(...listed[0])}`;
    const [[mark, tensors], ...rest] = listed;
    const first = `${count(tensors)} of ${count(this.tensors)} ${tensors === 1 ? mark.label : mark.many}`;
    return [first, ...rest.map((each) => amount(...each))].join(", ");
  }
}

const amount = (mark, tensors) => `${count(tensors)} ${tensors === 1 ? mark.label : mark.many}`;
const count = (number) => number.toLocaleString("en-US");
const tensorsIn = (number) => `${count(number)} tensor${number === 1 ? "" : "s"}`;

const size = (bytes) => {
  for (const [unit, name] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= unit) return `${(bytes / unit).toFixed(1)}\u00a0${name}`;
  }
  return `${bytes}\u00a0B`;
};

// Make an element; children that are text stay text, whatever they contain.
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
};

const tile = (tally, attributes = {}) =>
  make("span", { class: tally.part ? "tile part" : "tile", "data-mark": tally.worst.key, ...attributes },
    tally.worst.glyph);

// A name with places where a line may break.
const nameOf = (text) => {
  const code = make("code");
  text.split(/(?<=\.)/).forEach((segment, at) => code.append(...(at ? [make("wbr"), segment] : [segment])));
  return code;
};
