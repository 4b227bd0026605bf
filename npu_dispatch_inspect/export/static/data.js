// The rows as they come from the page: texts by number, one array for each column.
const data = JSON.parse(document.getElementById("data").textContent);
const strings = data.strings;
const columns = data.columns;
const total = data.number.length;
const columnOf = new Map(columns.map((column) => [column.key, column]));

// Rows stand in the order of the calls, so what is inside a call follows it:
// `after` is the first row that is outside again, `parent` the row around.
const parent = new Int32Array(total).fill(-1);
const after = new Int32Array(total).fill(total);
{
  const open = [];
  for (let row = 0; row < total; row++) {
    while (open.length && data.depth[open[open.length - 1]] >= data.depth[row]) {
      after[open.pop()] = row;
    }
    if (open.length) parent[row] = open[open.length - 1];
    open.push(row);
  }
}

const rowOf = new Map(data.number.map((number, row) => [number, row]));

// Rows that name another row as their partner, by that row.
const partnersOf = new Map();
for (const [row, number] of Object.entries(data.partner)) {
  const other = rowOf.get(number);
  if (other === undefined) continue;
  if (!partnersOf.has(other)) partnersOf.set(other, []);
  partnersOf.get(other).push(Number(row));
}

// Places in the tree, parents first: `last` is the first place outside again.
const places = data.tree.names.map((name, id) => ({
  id,
  name: strings[name],
  kind: strings[data.tree.kinds[id]],
  depth: data.tree.depths[id],
  last: data.tree.names.length,
  own: 0,
  all: 0,
  bad: 0,
  open: false,
}));
// The marks that say that something is wrong.
const BAD = data.tags.reduce(
  (mask, tag, bit) => (tag.tone === "bad" ? mask | (1 << bit) : mask),
  0,
);
{
  const open = [];
  for (const place of places) {
    while (open.length && open[open.length - 1].depth >= place.depth) {
      open.pop().last = place.id;
    }
    open.push(place);
  }
  for (let row = 0; row < total; row++) {
    const place = places[data.place[row]];
    place.own += 1;
    if (data.marks[row] & BAD) place.bad += 1;
  }
  const totals = places.map((place) => [place.own, place.bad]);
  for (const place of places) {
    place.all = place.bad = 0;
    for (let id = place.id; id < place.last; id++) {
      place.all += totals[id][0];
      place.bad += totals[id][1];
    }
  }
}

function cell(row, key) {
  const column = columnOf.get(key);
  return column ? strings[column.ids[row]] : "";
}

const counted = new Intl.NumberFormat("en");

/** An element with a class, texts and other elements inside; never HTML from data. */
function make(tag, className, ...inside) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...inside);
  return element;
}

function button(className, ...inside) {
  const element = make("button", className, ...inside);
  element.type = "button";
  return element;
}

/** "aten::" in a fainter colour, so that the eye finds what follows. */
function operatorName(name) {
  const colons = name.indexOf("::");
  if (colons < 0) return [name];
  return [make("span", "faint", name.slice(0, colons + 2)), name.slice(colons + 2)];
}

const TONES = {
  "aclnn": "npu",
  "aclnn via": "npu soft",
  "aclop": "npu",
  "CPU fallback": "cpu",
  "CPU inside": "cpu",
  "composite": "composite",
  "view": "view",
  "no launch": "view",
  "kernel": "kernel",
  "copy": "copy",
  "unknown": "unknown",
  "launch": "npu",
  "op-plugin": "composite",
  "fallback": "cpu",
  "error": "cpu",
  "own kernel": "npu",
  "default backend kernel": "composite",
  "backend fallback": "cpu",
  "missing": "unknown",
};

function verdictMark(text) {
  return make("span", `verdict-mark ${TONES[text] ?? "view"}`, text);
}
