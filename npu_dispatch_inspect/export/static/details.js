// What is told about one row: the panel beside the table.
const panel = document.getElementById("details");
const MANY = 24;

function detailsOpen() {
  return !panel.hidden;
}

function closeDetails() {
  panel.hidden = true;
  document.body.classList.remove("with-details");
}

function showDetails(row) {
  const close = button("plain close", "\u00d7");
  close.title = "Close (Esc)";
  close.setAttribute("aria-label", "Close the details");
  close.addEventListener("click", () => {
    closeDetails();
    grid.focus();
  });
  const heading = make("h2", "", ...operatorName(cell(row, "op")));
  const where = [`#${data.number[row]}`, cell(row, "phase"), cell(row, "module")];
  panel.replaceChildren(
    make("header", "", heading, close),
    make("p", "where", where.filter(Boolean).join(" \u00b7 ")),
  );
  around(row);
  for (const id of data.details[row]) {
    const [title, kind, items] = data.parts[id];
    const texts = items.map((item) => item.map((number) => strings[number]));
    section(strings[title], SHAPES[kind](texts));
  }
  inside(row);
  if (panel.hidden) {
    panel.hidden = false;
    document.body.classList.add("with-details");
    draw();
  }
  panel.scrollTop = 0;
}

function section(title, ...content) {
  panel.append(make("section", "", make("h3", "", title), ...content));
}

/** The calls around it, the calls inside it, and the calls of the other direction. */
function around(row) {
  const above = [];
  for (let each = parent[row]; each >= 0; each = parent[each]) above.unshift(each);
  if (above.length) section("Called inside", links(above, "chain"));
}

function inside(row) {
  const below = [];
  for (let each = row + 1; each < after[row]; each = after[each]) below.push(each);
  if (below.length) section("Calls made inside", links(below, ""));
  const partner = rowOf.get(data.partner[row]);
  if (partner !== undefined) section(data.partners[0], links([partner], ""));
  const others = partnersOf.get(row);
  if (others) section(data.partners[1], links(others, ""));
}

function links(rows, className) {
  const list = make("ul", `links ${className}`);
  for (const row of rows.slice(0, MANY)) {
    const link = button("link", ...operatorName(cell(row, "op")));
    link.addEventListener("click", () => goTo(row));
    list.append(
      make("li", "", link, " ", make("span", "faint", `#${data.number[row]}`)),
    );
  }
  if (rows.length > MANY) list.append(make("li", "faint", `... ${rows.length - MANY} more`));
  return list;
}

const SHAPES = {
  text: (items) => {
    const block = make("div", "");
    for (const [text] of items) block.append(make("p", "", text));
    return block;
  },
  code: (items) => make("pre", "", items.map(([text]) => text).join("\n")),
  pairs: (items) => {
    const list = make("dl", "pairs");
    for (const [name, value, note] of items) list.append(pair(name, value, note));
    return list;
  },
  steps: (items) => {
    const list = make("ol", "steps");
    for (const [key, kind, site] of items) {
      list.append(
        make("li", "", make("b", "", key), " ", make("span", "faint", kind), make("code", "", site)),
      );
    }
    return list;
  },
  launch: (items) => {
    const [[name, note], ...rest] = items;
    const block = make(
      "div",
      "launch",
      make("p", "", make("b", "", name), make("span", "faint", note)),
    );
    if (rest.length) block.append(SHAPES.pairs(rest));
    return block;
  },
};

function pair(name, value, note) {
  const row = make("div", "", make("dt", "", name), make("dd", "", make("code", "", value)));
  if (note) row.lastChild.append(make("span", "faint", note));
  return row;
}
