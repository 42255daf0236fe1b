// The top of the page: what was run, what must be known before any figure is read, and the runs side by side.

const percentileOf = (figures, p) => figures?.percentiles?.find((entry) => entry.p === p)?.us ?? null;
const errorCount = (run) => sum(Object.values(run.errors || {}));
const isSlo = (run) => isNumber(run.slo_us) && run.slo_us > 0;
const isOpen = (run) => run.loop === "open";

function drawTop(results) {
  const tool = results.tool || {};
  const target = results.settings?.address || results.settings?.target;
  const download = el("a", { href: "#", download: "softmax-loadgen.json", title: "Save the results as JSON" }, "JSON");
  download.addEventListener("click", () => {
    download.href = URL.createObjectURL(new Blob([JSON.stringify(results, null, 2)], { type: "application/json" }));
  });
  return [
    el("div", { class: "top" },
      el("div", {}, el("p", { class: "by" }, ["softmax-loadgen", tool.version].filter(Boolean).join(" ")),
        el("h1", {}, target ? `Load on ${target}` : "Load report")),
      el("div", { class: "tools" }, themeButton(), download)),
    tool.command && el("pre", { class: "command", "aria-label": "Command" }, tool.command),
  ];
}

function themeButton() {
  const next = { "": "dark", dark: "light", light: "" };
  const names = { "": "Theme: system", dark: "Theme: dark", light: "Theme: light" };
  const root = document.documentElement;
  const button = el("button", { type: "button", id: "theme", onclick: () => {
    const theme = next[root.dataset.theme || ""];
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    button.textContent = names[theme];
  } }, names[""]);
  return button;
}

// The same words of several runs are said once, with their number.
function drawNotices(results) {
  const notices = new Map();
  const add = (bad, head, text, run) => {
    const key = `${head}\n${text}`;
    if (!notices.has(key)) notices.set(key, { bad, head, text, runs: [] });
    notices.get(key).runs.push(run.name);
  };
  for (const run of results.runs) {
    if (run.wrong > 0) add(true, "Wrong answers", `${count(run.wrong)} of ${count(run.verified)} verified`, run);
    if (run.generator?.limited) {
      add(false, "Generator-limited", run.generator.why || "the generator, not the server, was the limit", run);
    }
    for (const warning of run.server?.warnings || []) add(false, "Server", warning, run);
  }
  if (!notices.size) return null;
  const several = results.runs.length > 1;
  const where = (notice) => (several ? ` (${notice.runs.length > 3 ? plural(notice.runs.length, "run", "runs")
    : notice.runs.join(", ")})` : "");
  return el("ul", { class: "notices", "aria-label": "Warnings" }, [...notices.values()].map((notice) =>
    el("li", { class: notice.bad ? "is-bad" : "is-warn" }, el("b", {}, notice.head), " ", notice.text,
      el("span", { class: "muted" }, where(notice)))));
}

function drawSearch(search) {
  if (!search) return null;
  const goal = `${percentileName(search.percentile)} ≤ ${latency(search.slo_us)}`;
  const found = isNumber(search.rate_per_s) && search.rate_per_s > 0;
  const steps = (Array.isArray(search.steps) ? search.steps : []).filter((step) => step && typeof step === "object");
  const isPlain = (key) => steps.every((step) => step[key] === null || typeof step[key] !== "object");
  const keys = [...new Set(steps.flatMap((step) => Object.keys(step)))].filter(isPlain);
  const cell = (key) => (step) => {
    const value = step[key];
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (key.endsWith("_us")) return latency(value);
    if (key.endsWith("_per_s")) return perSecond(value);
    return isNumber(value) ? plain(value) : value ?? NONE;
  };
  return section("search", found ? `Highest rate with ${goal}: ${perSecond(search.rate_per_s)}` : `No rate met ${goal}`,
    plural(steps.length, "step", "steps"),
    steps.length > 0 && folded("Steps of the search", () => table({
      caption: "Steps", rows: steps,
      columns: keys.map((key, i) => ({ name: key.replace(/_(us|per_s)$/, "").replaceAll("_", " "), text: cell(key),
        number: i > 0, head: i === 0 })),
    })));
}

// Latency against throughput, a point a run, in the order of what was offered.
function drawCurve(results, chosen, choose) {
  const runs = results.runs.filter((run) => isNumber(run.achieved_per_s));
  const load = (run) => (isNumber(run.offered_per_s) && run.offered_per_s > 0 ? run.offered_per_s : run.achieved_per_s);
  const ordered = [...runs].sort((a, b) => load(a) - load(b));
  const line = (name, style, p) => ({
    name, style, dots: true,
    points: ordered.map((run) => ({ x: run.achieved_per_s, y: percentileOf(run.latency, p),
      hollow: run.generator?.limited, chosen: run === chosen })),
  });
  const series = [line("p50", "soft", 50), line("p99", "accent", 99), line("p99.9", "dashed", 99.9)];
  const slos = [...new Set(runs.filter(isSlo).map((run) => run.slo_us))];
  const x = linearScale(runs.map((run) => run.achieved_per_s), true);
  const y = latencyScale([...series.flatMap((one) => one.points.map((point) => point.y)), ...slos]);
  const hollow = runs.some((run) => run.generator?.limited) ? "; hollow: the generator was the limit" : "";
  return section("curve", "Latency against throughput", `one point a run${hollow}`, plot({
    title: "Latency against throughput", height: 280, series,
    x: { scale: x, ticks: x.ticks.map((tick) => ({ x: tick, text: plain(tick) })), name: "answered requests a second",
      text: perSecond },
    y: { scale: y, text: latencyTickOrValue(y) },
    limits: slos.map((slo) => ({ y: slo, text: `SLO ${latency(slo)}` })),
    choose: (place) => choose(runs.find((run) => run.achieved_per_s === place)),
  }));
}

// Ticks are round and shown short; values have three digits.
const latencyTickOrValue = (scale) => (us) => (scale.ticks.includes(us) ? latencyTick(us) : latency(us));

function drawRuns(results, chosen, choose) {
  const { runs } = results;
  const unit = commonUnit(runs.flatMap((run) => [percentileOf(run.latency, 99.9), run.latency?.max_us]));
  const time = (name, of) => ({ name: `${name} ${unit.name}`, text: (run) => inUnit(of(run), unit), number: true });
  const number = (name, text) => ({ name, text, number: true });
  const flagged = (n) => (n > 0 ? el("span", { class: "bad" }, count(n)) : count(n));
  const button = (run) => el("button", { type: "button", "aria-pressed": String(run === chosen),
    onclick: () => choose(run) }, run.name || "run");
  const columns = [
    { name: "run", head: true, text: button },
    runs.some(isOpen) && number("offered/s", (run) => (isOpen(run) ? rate(run.offered_per_s) : NONE)),
    number("answered/s", (run) => rate(run.achieved_per_s)),
    runs.some(isSlo) && number("goodput/s", (run) => rate(run.goodput_per_s)),
    number("GB/s", (run) => grouped(run.gb_per_s, 3)),
    time("p50", (run) => percentileOf(run.latency, 50)),
    time("p99", (run) => percentileOf(run.latency, 99)),
    time("p99.9", (run) => percentileOf(run.latency, 99.9)),
    time("max", (run) => run.latency?.max_us),
    number("errors", (run) => flagged(errorCount(run))),
    runs.some((run) => run.dropped > 0) && number("dropped", (run) => flagged(run.dropped)),
    number("limit", (run) => (run.generator?.limited ? el("span", { class: "warn" }, "generator") : "")),
  ].filter(Boolean);
  return section("runs", "Runs", "choose one to see it below", table({
    label: "Runs", className: "runs", columns, rows: runs,
    rowAttributes: (run) => ({ class: run === chosen ? "chosen" : null, onclick: () => choose(run) }),
  }));
}
