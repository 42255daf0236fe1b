// Builds nodes. Text only ever becomes a text node or an attribute's value, so nothing in the results can turn into
// markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function section(id, title, about, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` },
    el("header", {}, el("h2", { id: `${id}-title` }, title), about && el("span", { class: "about" }, about)),
    ...children);
}

// Columns of a table.
const number = (name, text) => ({ name, text, number: true });
const time = (name, unit, us) => number(`${name} ${unit.name}`, (row) => inUnit(us(row), unit));
const flagged = (n) => (n > 0 ? el("span", { class: "bad" }, count(n)) : count(n));

// columns: [{name, text: row => string or node, number: true, wrap: true, head: true}]; head marks the row's name.
// label names a table that has no caption.
function table({ caption, label, about, columns, rows, className, rowAttributes }) {
  const cell = (column, row) => {
    const classes = [column.number && "number", column.wrap && "wrap", column.className].filter(Boolean).join(" ");
    const attributes = { class: classes || null, scope: column.head ? "row" : null };
    return el(column.head ? "th" : "td", attributes, column.text(row));
  };
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label || caption },
    el("table", { class: className },
      caption && el("caption", {}, caption, about && el("span", { class: "about" }, about)),
      el("thead", {}, el("tr", {}, columns.map((column) =>
        el("th", { class: column.number ? "number" : null, scope: "col" }, column.name)))),
      el("tbody", {}, rows.map((row, i) =>
        el("tr", rowAttributes ? rowAttributes(row, i) : {}, columns.map((column) => cell(column, row)))))));
}

// A table that is built when it is first opened: a long timeline has thousands of rows.
function folded(summary, build) {
  const details = el("details", {}, el("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(build());
  });
  return details;
}

// A horizontal bar chart that is a table: rows of {name, n}.
function barTable({ caption, about, what, unit, rows, bad }) {
  const largest = greatest([0, ...rows.map((row) => row.n)]);
  const total = sum(rows.map((row) => row.n));
  const bar = (row) => {
    const drawn = el("span", { class: bad && bad(row) ? "bar is-bad" : "bar", "aria-hidden": "true" });
    drawn.style.width = `${largest > 0 ? (100 * numberOr(row.n, 0)) / largest : 0}%`;
    return drawn;
  };
  return table({
    caption, about, rows,
    columns: [
      { name: what, text: (row) => row.name, head: true },
      { name: "", text: bar, className: "bar-cell" },
      number(unit, (row) => count(row.n)), number("share", (row) => percent(row.n, total)),
    ],
    rowAttributes: (row) => ({ title: `${row.name}: ${count(row.n)} (${percent(row.n, total)})` }),
  });
}
