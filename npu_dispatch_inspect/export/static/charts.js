// Bars: how many calls per operator, module, verdict. A click filters by one of them.
const FEW = 8;
const ALL = 300;

function drawCharts() {
  const charts = columns.filter((column) => column.chart).map(chart);
  document.getElementById("charts").replaceChildren(...charts);
}

function chart(column) {
  const counts = new Map();
  for (const id of column.ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const card = make("section", "chart", make("h2", "", column.chart));
  card.setAttribute("aria-label", column.chart);
  if (column.key === "verdict" || column.key === "kind") card.append(stack(sorted));
  const list = make("ul", "bars");
  card.append(list);
  const fill = (many) =>
    list.replaceChildren(...sorted.slice(0, many).map(([id, count]) => bar(column, id, count, sorted[0][1])));
  fill(FEW);
  if (sorted.length > FEW) {
    const more = button("plain more", `All ${counted.format(sorted.length)}`);
    more.setAttribute("aria-expanded", "false");
    more.addEventListener("click", () => {
      const open = more.getAttribute("aria-expanded") !== "true";
      more.setAttribute("aria-expanded", open);
      more.textContent = open ? "Fewer" : `All ${counted.format(sorted.length)}`;
      fill(open ? ALL : FEW);
    });
    card.append(more);
  }
  return card;
}

function stack(sorted) {
  const whole = make("div", "stack");
  whole.setAttribute("aria-hidden", "true");
  for (const [id, count] of sorted) {
    const part = make("span", TONES[strings[id]] ?? "view");
    part.style.flexGrow = count;
    part.title = `${strings[id]}: ${counted.format(count)}`;
    whole.append(part);
  }
  return whole;
}

function bar(column, id, count, most) {
  const text = strings[id] || column.empty;
  const name = make("span", "name", ...operatorName(text));
  if (column.key === "verdict" || column.key === "kind") name.replaceChildren(verdictMark(text));
  const measure = make("span", `measure ${TONES[text] ?? ""}`);
  measure.style.setProperty("--share", count / most);
  const line = button("bar", name, measure, " ", make("span", "number", counted.format(count)));
  line.title = text;
  line.dataset.key = column.key;
  line.dataset.id = id;
  line.setAttribute("aria-pressed", filters.exact.get(column.key) === id);
  line.addEventListener("click", () => {
    if (filters.exact.get(column.key) === id) filters.exact.delete(column.key);
    else filters.exact.set(column.key, id);
    filtersChanged();
    explorer.scrollIntoView({ block: "start" });
  });
  return make("li", "", line);
}
