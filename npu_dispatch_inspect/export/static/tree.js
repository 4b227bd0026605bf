// The tree of modules beside the table; a click shows the calls below one of them.
const tree = document.getElementById("tree");
const UNFOLDED = 26;
let current = 0; // which item the keyboard is at, among those that can be seen

/** Open the upper levels, as far as there is room for them. */
function openTree() {
  for (let depth = 0, seen = 0; depth < 12; depth++) {
    seen += places.filter((place) => place.depth === depth).length;
    const next = places.filter((place) => place.depth === depth + 1).length;
    if (!next || seen + next > UNFOLDED) return;
    for (const place of places) if (place.depth === depth) place.open = true;
  }
}

function seenPlaces() {
  const seen = [];
  for (let id = 0; id < places.length; ) {
    seen.push(places[id]);
    id = places[id].open ? id + 1 : places[id].last;
  }
  return seen;
}

function drawTree() {
  const items = [treeItem(null), ...seenPlaces().map(treeItem)];
  current = Math.min(current, items.length - 1);
  items[current].tabIndex = 0;
  const focused = tree.contains(document.activeElement);
  tree.replaceChildren(...items);
  if (focused) items[current].focus();
}

function treeItem(place) {
  const name = place ? place.name : `All ${data.what}`;
  const count = place ? place.all : total;
  const item = make("div", "item");
  item.setAttribute("role", "treeitem");
  item.tabIndex = -1;
  item.dataset.place = place ? place.id : "";
  item.setAttribute("aria-level", place ? place.depth + 1 : 1);
  item.setAttribute("aria-selected", filters.place === place);
  item.setAttribute("aria-label", `${name} ${place ? place.kind : ""}, ${count} ${data.what}`);
  const parts = place && place.last > place.id + 1;
  if (parts) item.setAttribute("aria-expanded", place.open);
  item.style.paddingLeft = `${4 + 14 * (place ? place.depth : 0)}px`;
  item.append(
    make("span", "arrow", parts ? (place.open ? "\u25be" : "\u25b8") : ""),
    make("span", "name", name),
    make("span", "faint kind", place ? place.kind : ""),
  );
  if (place && place.bad) {
    const mark = make("span", "bad-count", counted.format(place.bad));
    mark.title = "on the CPU, or raised";
    item.append(mark);
  }
  item.append(make("span", "number", counted.format(count)));
  item.title = place ? `${name} ${place.kind}: ${place.own} of its own` : name;
  return item;
}

function placeAt(item) {
  return item.dataset.place === "" ? null : places[item.dataset.place];
}

function toggleAt(item) {
  const place = placeAt(item);
  if (place) place.open = !place.open;
  drawTree();
}

function choose(place) {
  filters.place = place;
  drawTree();
  filtersChanged();
}

tree.addEventListener("click", (event) => {
  const item = event.target.closest(".item");
  if (!item) return;
  current = [...tree.children].indexOf(item);
  if (event.target.closest(".arrow") && item.hasAttribute("aria-expanded")) toggleAt(item);
  else choose(placeAt(item));
});

tree.addEventListener("keydown", (event) => {
  const items = [...tree.children];
  const place = placeAt(items[current]);
  const parts = place && place.last > place.id + 1;
  const moves = {
    ArrowDown: () => (current = Math.min(current + 1, items.length - 1)),
    ArrowUp: () => (current = Math.max(current - 1, 0)),
    Home: () => (current = 0),
    End: () => (current = items.length - 1),
    ArrowRight: () => {
      if (parts && !place.open) place.open = true;
      else if (parts) current += 1;
    },
    ArrowLeft: () => {
      if (parts && place.open) place.open = false;
      else if (place && place.depth) {
        while (placeAt(items[current]).depth >= place.depth) current -= 1;
      }
    },
    Enter: () => choose(place),
    " ": () => choose(place),
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
  drawTree();
  tree.children[current].focus();
});
