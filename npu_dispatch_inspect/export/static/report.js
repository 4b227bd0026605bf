// Buttons, keys and the theme: what ties the parts of the page together.
const explorer = document.getElementById("explorer");
const search = document.getElementById("search");
const chips = document.getElementById("chips");

function filtersChanged() {
  for (const element of document.querySelectorAll("#tags button")) {
    element.setAttribute("aria-pressed", (filters.marks & Number(element.dataset.bit)) !== 0);
  }
  for (const element of document.querySelectorAll("#facets button")) {
    const wanted = filters.facets.get(element.dataset.key);
    element.setAttribute("aria-pressed", wanted?.has(Number(element.dataset.id)) ?? false);
  }
  for (const element of document.querySelectorAll(".bar")) {
    const wanted = filters.exact.get(element.dataset.key);
    element.setAttribute("aria-pressed", wanted === Number(element.dataset.id));
  }
  const made = [];
  for (const [key, id] of filters.exact) {
    const label = `${columnOf.get(key).label}: ${strings[id] || columnOf.get(key).empty}`;
    made.push(chip(label, () => filters.exact.delete(key)));
  }
  if (filters.place) {
    const remove = () => {
      filters.place = null;
      drawTree();
    };
    made.push(chip(`${data.tree.heading}: ${path(filters.place)}`, remove));
  }
  chips.replaceChildren(...made);
  scroller.scrollTop = 0;
  refilter();
}

function chip(label, remove) {
  const made = button("chip", label, make("span", "", "\u00d7"));
  made.title = "Remove this filter";
  made.addEventListener("click", () => {
    remove();
    filtersChanged();
  });
  return made;
}

function path(place) {
  const names = [place.name];
  let depth = place.depth;
  for (let id = place.id - 1; id >= 0 && depth > 0; id--) {
    if (places[id].depth < depth) {
      depth = places[id].depth;
      names.unshift(places[id].name);
    }
  }
  return names.join(".");
}

function clearFilters() {
  search.value = "";
  filters.words = [];
  filters.marks = 0;
  filters.facets.clear();
  filters.exact.clear();
  filters.place = null;
  drawTree();
  filtersChanged();
}

function filtered() {
  return !document.getElementById("clear").hidden;
}

function drawTags() {
  const holder = document.getElementById("tags");
  data.tags.forEach((tag, bit) => {
    let many = 0;
    for (const marks of data.marks) if (marks & (1 << bit)) many += 1;
    const made = button(`toggle ${tag.tone}`, tag.label, " ", make("span", "number", counted.format(many)));
    made.dataset.bit = 1 << bit;
    made.disabled = many === 0;
    made.addEventListener("click", () => {
      filters.marks ^= 1 << bit;
      filtersChanged();
    });
    holder.append(made);
  });
  const facets = document.getElementById("facets");
  for (const column of columns.filter((each) => each.facet)) {
    const many = new Map();
    for (const id of column.ids) many.set(id, (many.get(id) ?? 0) + 1);
    if (many.size < 2) continue;
    for (const [id, count] of many) {
      const made = button("toggle", strings[id], " ", make("span", "number", counted.format(count)));
      made.dataset.key = column.key;
      made.dataset.id = id;
      made.addEventListener("click", () => {
        const wanted = filters.facets.get(column.key) ?? new Set();
        if (!wanted.delete(id)) wanted.add(id);
        filters.facets.set(column.key, wanted);
        filtersChanged();
      });
      facets.append(made);
    }
  }
}

// The overview above has buttons that lead into the table.
document.querySelector(".overview").addEventListener("click", (event) => {
  const pressed = event.target.closest("button");
  if (!pressed) return;
  if (pressed.dataset.tag) {
    clearFilters();
    filters.marks = 1 << data.tags.findIndex((tag) => tag.key === pressed.dataset.tag);
    filtersChanged();
  } else {
    const row = rowOf.get(Number(pressed.dataset.number));
    if (row === undefined) return;
    goTo(row);
  }
  explorer.scrollIntoView({ block: "start" });
  grid.focus({ preventScroll: true });
});

search.addEventListener("input", () => {
  filters.words = parsed(search.value);
  filtersChanged();
});

search.addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "ArrowDown") {
    event.preventDefault();
    grid.focus();
    if (selected < 0) select(0);
  }
});

grid.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-position]");
  if (!row) return;
  const position = Number(row.dataset.position);
  if (event.target.closest(".arrow") && row.hasAttribute("aria-expanded")) {
    setFold(shown[position], !folded[shown[position]]);
    return;
  }
  select(position, { scroll: false });
  showDetails(shown[selected]);
});

function page() {
  return Math.max(1, Math.floor(scroller.clientHeight / rowHeight()) - 2);
}

const GRID_KEYS = {
  ArrowDown: () => select(selected + 1),
  ArrowUp: () => select(selected - 1),
  PageDown: () => select(selected + page()),
  PageUp: () => select(selected - page()),
  Home: () => select(0),
  End: () => select(shown.length - 1),
  Enter: () => {
    if (selected < 0) select(0);
    if (selected >= 0) showDetails(shown[selected]);
  },
  ArrowRight: () => {
    const row = shown[selected];
    if (row !== undefined && folded[row]) setFold(row, false);
  },
  ArrowLeft: () => {
    const row = shown[selected];
    if (row === undefined) return;
    if (after[row] > row + 1 && !folded[row]) setFold(row, true);
    else if (shown.includes(parent[row])) select(shown.indexOf(parent[row]));
  },
};

grid.addEventListener("keydown", (event) => {
  const act = GRID_KEYS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input")) {
    event.preventDefault();
    explorer.scrollIntoView({ block: "start" });
    search.focus({ preventScroll: true });
    search.select();
  } else if (event.key === "Escape") {
    const inPanel = panel.contains(document.activeElement);
    if (detailsOpen()) closeDetails();
    else if (filtered()) clearFilters();
    if (inPanel || document.activeElement === search) grid.focus({ preventScroll: true });
  }
});

for (const [id, act] of [
  ["clear", clearFilters],
  ["fold", () => foldAll(true)],
  ["unfold", () => foldAll(false)],
]) {
  document.getElementById(id).addEventListener("click", act);
}

// On a narrow screen the tree is hidden until somebody asks for it.
const modules = document.getElementById("modules");
modules.textContent = data.tree.heading;
modules.addEventListener("click", () => {
  modules.setAttribute("aria-expanded", explorer.classList.toggle("with-tree"));
});

// Light or dark as the system has it, until the button says otherwise.
const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
dark.addEventListener("change", nameTheme);

// Paper has no scrolling: the rows that are shown are written out, up to a limit.
const PRINTED = 1000;
const closed = [];

addEventListener("beforeprint", () => {
  const table = grid.cloneNode(true);
  for (const name of ["id", "style", "role", "tabindex"]) table.removeAttribute(name);
  table.querySelector("colgroup").remove();
  table.tBodies[0].replaceChildren(
    ...shown.slice(0, PRINTED).map((row, position) => tableRow(position)),
  );
  const printed = document.getElementById("printed");
  const more = shown.length - PRINTED;
  const rest = more > 0 ? `... ${counted.format(more)} more ${data.what}` : "";
  printed.replaceChildren(table, make("p", "", rest));
  closed.push(...document.querySelectorAll(".findings details:not([open])"));
  for (const finding of closed) finding.open = true;
});
addEventListener("afterprint", () => {
  document.getElementById("printed").replaceChildren();
  for (const finding of closed.splice(0)) finding.open = false;
});

scroller.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
new ResizeObserver(() => redraw()).observe(scroller);

document.getElementById("scriptless").remove();
theme.hidden = false;
nameTheme();
if (total) {
  explorer.hidden = false;
  tree.setAttribute("aria-label", data.tree.heading);
  search.placeholder = `Search ${data.what}   ( / )`;
  // A short table does not need the whole screen.
  const lines = Math.max(total, places.length + 1);
  explorer.style.setProperty("--content", `${lines * rowHeight() + 190}px`);
  for (const id of ["fold", "unfold"]) {
    document.getElementById(id).hidden = !data.depth.some((depth) => depth > 0);
  }
  layOut();
  drawCharts();
  drawTags();
  openTree();
  drawTree();
  refilter();
}
