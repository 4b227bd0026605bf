// The table: which rows are shown, and those of them that are on the screen.
const scroller = document.getElementById("scroller");
const grid = document.getElementById("grid");
const body = grid.tBodies[0];
const OVERSCAN = 10;
const CHARACTER = 7.3;
const NARROW = innerWidth <= 760;
const WIDEST = { op: NARROW ? 24 : 36, shapes: 30, kernel: 36, aclnn: 28, module: 30, schema: 60 };

const filters = {
  words: [],
  marks: 0,
  facets: new Map(), // column key -> set of string numbers
  exact: new Map(), // column key -> string number
  place: null,
};
const folded = Uint8Array.from(data.folded);
// The marks of a row and of everything inside it.
const marksInside = Int32Array.from(data.marks);
for (let row = total - 1; row > 0; row--) {
  if (parent[row] >= 0) marksInside[parent[row]] |= marksInside[row];
}
let shown = []; // rows, in order
let selected = -1; // a position in `shown`
let drawn = "";

/** The words of the search field: text, column, whether it must not be there. */
function parsed(text) {
  const words = [];
  for (const found of text.matchAll(/(-?)(?:(\w+):(?!:))?(?:"([^"]*)"?|(\S+))/g)) {
    let [whole, minus, key, quoted, bare] = found;
    if (key && !columnOf.has(key)) {
      // "npu:0" is no column.
      key = undefined;
      bare = whole.slice(minus.length).replaceAll('"', "");
      quoted = undefined;
    }
    const wanted = (quoted ?? bare ?? "").toLowerCase();
    if (wanted) words.push({ wanted, key, not: minus === "-" });
  }
  return words;
}

let lowered = null;

/** For each text of the table: is the word in it? Asked once, not for every row. */
function hits(wanted) {
  lowered ??= strings.map((text) => text.toLowerCase());
  return Uint8Array.from(lowered, (text) => (text.includes(wanted) ? 1 : 0));
}

function tests() {
  const found = [];
  for (const { wanted, key, not } of filters.words) {
    const hit = hits(wanted);
    const inside = (key ? [columnOf.get(key)] : columns).map((column) => column.ids);
    found.push((row) => {
      for (const ids of inside) if (hit[ids[row]]) return !not;
      return not;
    });
  }
  if (filters.marks) found.push((row) => (data.marks[row] & filters.marks) !== 0);
  for (const [key, wanted] of filters.facets) {
    const ids = columnOf.get(key).ids;
    if (wanted.size) found.push((row) => wanted.has(ids[row]));
  }
  for (const [key, wanted] of filters.exact) {
    const ids = columnOf.get(key).ids;
    found.push((row) => ids[row] === wanted);
  }
  return found;
}

/** What is searched for is shown wherever it is; else folded rows hide their inside. */
function refilter() {
  const kept = selected >= 0 ? shown[selected] : -1;
  const wanted = tests();
  const narrow = wanted.length > 0;
  const place = filters.place;
  shown = [];
  for (let row = 0; row < total; ) {
    const at = data.place[row];
    if (
      (place === null || (at >= place.id && at < place.last)) &&
      wanted.every((test) => test(row))
    ) {
      shown.push(row);
    }
    row = !narrow && folded[row] ? after[row] : row + 1;
  }
  selected = kept < 0 ? -1 : shown.indexOf(kept);
  grid.setAttribute("aria-rowcount", shown.length + 1);
  document.getElementById("nothing").hidden = shown.length > 0;
  const all = place !== null && !narrow ? place.all : total + data.hidden;
  const more = !narrow && shown.length < all - data.hidden ? " (others are folded)" : "";
  const many = `${counted.format(shown.length)} of ${counted.format(all)}`;
  document.getElementById("count").textContent = `${many} ${data.what}${more}`;
  document.getElementById("clear").hidden = !narrow && place === null;
  redraw();
}

function rowHeight() {
  return parseFloat(getComputedStyle(grid).getPropertyValue("--row"));
}

/** Draw the rows that are on the screen; the others are room above and below. */
function draw() {
  const height = rowHeight();
  const head = grid.tHead.offsetHeight;
  const first = Math.max(0, Math.floor(scroller.scrollTop / height) - OVERSCAN);
  const many = Math.ceil((scroller.clientHeight - head) / height) + 2 * OVERSCAN;
  const last = Math.min(shown.length, first + many);
  const now = `${first} ${last} ${selected}`;
  if (now === drawn) return;
  drawn = now;
  const rows = [room(first * height)];
  for (let position = first; position < last; position++) {
    rows.push(tableRow(position));
  }
  rows.push(room((shown.length - last) * height));
  body.replaceChildren(...rows);
  const active = selected >= first && selected < last ? `row${shown[selected]}` : "";
  if (active) grid.setAttribute("aria-activedescendant", active);
  else grid.removeAttribute("aria-activedescendant");
}

function redraw() {
  drawn = "";
  draw();
}

function room(height) {
  const row = make("tr", "room");
  row.setAttribute("aria-hidden", "true");
  row.style.height = `${height}px`;
  return row;
}

function tableRow(position) {
  const row = shown[position];
  const element = make("tr", position === selected ? "selected" : "");
  element.id = `row${row}`;
  element.dataset.position = position;
  element.setAttribute("aria-rowindex", position + 2);
  element.setAttribute("aria-level", data.depth[row] + 1);
  element.setAttribute("aria-selected", position === selected);
  const parts = after[row] > row + 1;
  const marks = parts && folded[row] ? marksInside[row] : data.marks[row];
  if (data.marks[row] & BAD) element.classList.add("bad");
  if (parts) element.setAttribute("aria-expanded", !folded[row]);
  element.append(tableCell("number", String(data.number[row])));
  for (const column of columns) {
    const text = strings[column.ids[row]];
    const made = tableCell(column.key, text);
    if (column.key === "op") {
      const arrow = make("span", "arrow", parts ? (folded[row] ? "\u25b8" : "\u25be") : "");
      arrow.setAttribute("aria-hidden", "true");
      made.replaceChildren(arrow, ...operatorName(text));
      made.style.paddingLeft = `${6 + 14 * Math.min(data.depth[row], 12)}px`;
    } else if ((column.key === "verdict" || column.key === "kind") && text) {
      made.replaceChildren(verdictMark(text));
    } else if (column.key === "aclnn" && text.startsWith("via ")) {
      made.classList.add("faint");
    }
    if (column === marked) made.append(...badges(marks));
    element.append(made);
  }
  return element;
}

/** Casts and copies beside the verdict, those inside a folded row among them. */
const marked = columnOf.get("verdict") ?? columnOf.get("op");

function badges(marks) {
  return data.tags
    .filter((tag, bit) => tag.tone !== "info" && tag.key !== "fallback" && marks & (1 << bit))
    .map((tag) => make("span", `badge ${tag.tone}`, tag.label));
}

function tableCell(key, text) {
  const made = make("td", `cell-${key}`, text);
  made.setAttribute("role", "gridcell");
  if (text.length > 12) made.title = text;
  return made;
}

/** Column widths by what most of their texts need. */
function layOut() {
  const group = grid.querySelector("colgroup");
  const head = grid.tHead.rows[0];
  const widths = [["number", "#", NARROW ? 4 : 7]];
  for (const column of columns) {
    const lengths = [...new Set(column.ids)].map((id) => strings[id].length);
    lengths.sort((a, b) => a - b);
    let wide = lengths[Math.floor(lengths.length * 0.95)] ?? lengths[lengths.length - 1] ?? 0;
    if (column.key === "op") wide += 8;
    if (column.key === "verdict") wide += 10;
    if (column.key === "kind") wide += 4;
    wide = Math.max(column.label.length + 1, Math.min(wide + 1, WIDEST[column.key] ?? 26));
    widths.push([column.key, column.label, wide]);
  }
  let sum = 0;
  for (const [key, label, wide] of widths) {
    const width = Math.round(wide * CHARACTER + 14);
    sum += width;
    const col = make("col");
    col.style.width = `${width}px`;
    group.append(col);
    const th = make("th", `cell-${key}`, label);
    th.scope = "col";
    th.setAttribute("role", "columnheader");
    head.append(th);
  }
  grid.style.minWidth = `${sum}px`;
}

function select(position, { scroll = true } = {}) {
  if (!shown.length) return;
  selected = Math.max(0, Math.min(position, shown.length - 1));
  if (scroll) {
    const height = rowHeight();
    const head = grid.tHead.offsetHeight;
    const top = selected * height;
    const room = scroller.clientHeight - head - height;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
  }
  redraw();
  if (detailsOpen()) showDetails(shown[selected]);
}

function setFold(row, fold) {
  folded[row] = fold ? 1 : 0;
  refilter();
}

function foldAll(fold) {
  for (let row = 0; row < total; row++) folded[row] = fold && after[row] > row + 1 ? 1 : 0;
  refilter();
}

/** Bring a row on the screen, wherever it is hidden. */
function goTo(row) {
  let position = shown.indexOf(row);
  if (position < 0) {
    for (let around = parent[row]; around >= 0; around = parent[around]) {
      folded[around] = 0;
    }
    clearFilters();
    position = shown.indexOf(row);
  }
  select(position);
  showDetails(row);
}
