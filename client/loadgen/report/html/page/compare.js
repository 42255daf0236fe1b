// Two sides over each other, and the machines of one measurement beside each other.

const change = (x) => (isNumber(x) ? `${x > 0 ? "+" : ""}${(100 * x).toFixed(2)} %` : NONE);
const isCertain = (figure) => (isNumber(figure.low) && figure.low > 0) || (isNumber(figure.high) && figure.high < 0);
const isWorse = (figure) => isCertain(figure) && (/\/s$/.test(figure.name) ? figure.change < 0 : figure.change > 0);

function changeTable(caption, figures) {
  const interval = (of) => (isNumber(of.low) && isNumber(of.high) ? `${change(of.low)} to ${change(of.high)}` : NONE);
  const marked = (text) => (of) => (isWorse(of) ? el("span", { class: "bad" }, text(of))
    : isCertain(of) ? el("b", {}, text(of)) : text(of));
  return table({ caption, className: "changes", rows: figures, columns: [
    { name: "", head: true, text: (of) => String(of.name ?? NONE).replace(/ us$/, " µs") },
    number("before", (of) => grouped(of.before, 1)), number("after", (of) => grouped(of.after, 1)),
    number("change", marked((of) => change(of.change))), number("95 % interval", marked(interval)),
  ] });
}

function drawLoadChange(load, i) {
  const times = listOf(load.figures).map((of) => ({ ...of, x: Number(/^p([0-9.]+) us$/.exec(of.name)?.[1]) }))
    .filter((of) => isNumber(of.x) && (isNumber(of.before) || isNumber(of.after)));
  const line = (name, style) => (
    { name, style, dots: true, points: times.map((of) => ({ x: of.x, y: of[name] })) });
  const drawn = percentilePlot(`Latency by percentile: ${load.name ?? "load"}`,
    [line("before", "soft"), line("after", "accent")]);
  const figures = changeTable("Figures", listOf(load.figures));
  const classes = listOf(load.classes).map((of) => changeTable(of.name ?? NONE, listOf(of.figures)));
  return section(`load-${i}`, load.name ?? "load", load.basis,
    drawn ? el("div", { class: "split" }, drawn, figures) : figures, classes);
}

function drawComparison({ differences, loads, notes, verdicts }) {
  const failed = listOf(verdicts).filter((rule) => rule.failed);
  const others = [...listOf(verdicts).filter((rule) => !rule.failed).map((rule) => `Kept: ${rule.text}`),
    ...(Array.isArray(notes) ? notes : [])];
  const columns = [{ name: "", head: true, text: (of) => of.what },
    { name: "before", text: (of) => of.before || NONE, wrap: true },
    { name: "after", text: (of) => of.after || NONE, wrap: true }];
  return [
    failed.length > 0 && el("ul", { class: "notices", "aria-label": "Failed" },
      failed.map((rule) => el("li", { class: "is-bad" }, el("b", {}, "Failed"), " ", rule.text))),
    others.length > 0 && el("ul", { class: "verdicts", "aria-label": "Notes" },
      others.map((text) => el("li", {}, text))),
    ...listOf(loads).map(drawLoadChange),
    listOf(differences).length > 0 && section("differences", "What differs", "in flags, machines and builds",
      table({ label: "What differs", rows: listOf(differences), columns })),
  ];
}

// Of a merged run.
function drawGenerators(run) {
  const rows = listOf(run.generators);
  if (!rows.length) return null;
  const told = (name, text) => number(name, (one) => (one.lacks ? NONE : text(one.run ?? {}, one)));
  const ms = (x) => (isNumber(x) ? `${grouped(x, 1)} ms` : NONE);
  const limit = ({ lacks, run: of }) => (lacks ? el("span", { class: "bad" }, lacks)
    : el("span", { class: "warn" }, of?.generator?.why ?? ""));
  return section("generators", "Generators", "the percentiles above are of all requests together",
    table({ label: "Generators", rows, columns: [
      { name: "generator", head: true, text: (one) => [one.file, one.machine?.host].filter(Boolean).join(" on ") },
      told("part", (of) => (of.parts > 1 ? of.part : NONE)),
      told("cores", (of, { machine }) => `${grouped(of.generator?.cpu_cores, 2)} of ${machine?.cores ?? NONE}`),
      told("machine busy", (of) => percent(of.machine_busy, 1)),
      told("answered/s", (of) => rate(of.achieved_per_s)),
      told("p99", (of) => latency(percentileOf(of.latency, 99))), told("dropped", (of) => count(of.dropped)),
      told("late", (of) => count(of.late)), told("began", (of) => ms((of.began_s - run.began_s) * 1e3)),
      told("clock ±", (of) => ms(of.clock_ms)), { name: "limit", text: limit, wrap: true },
    ] }));
}
