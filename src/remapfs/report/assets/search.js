// Find concrete names: they are made from the templates, one after the other, and never kept.
const MOST_ROWS = 200;
const FEW = 3;

const tests = (query) => query.trim().split(/\s+/).filter(Boolean).map((word) =>
  new RegExp(word.split("*").map((text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*"), "i"));

const find = (query, mark) => {
  const wanted = tests(query);
  const hit = (name) => name !== null && wanted.every((test) => test.test(name));
  const found = [];
  for (const family of families) {
    const byState = new Map();
    everyTensor(family, (numbers, state) => {
      if (mark && state.mark !== mark) return;
      if (!hit(fill(family.source, numbers)) && !hit(fill(family.name, numbers))) return;
      if (!byState.has(state)) byState.set(state, { tensors: 0, first: [], seen: family.axes.map(() => new Set()) });
      const group = byState.get(state);
      group.tensors += 1;
      if (group.first.length <= FEW) group.first.push([...numbers]);
      group.seen.forEach((axis, at) => axis.add(numbers[at]));
    });
    for (const [state, group] of byState) found.push({ family, state, ...group });
  }
  return found.sort((a, b) => marks.get(a.state.mark).rank - marks.get(b.state.mark).rank);
};
