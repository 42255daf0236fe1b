// The runs side by side.

// Without answers there are no percentiles, whatever is written there.
function percentileOf(figures, p) {
  return figures?.count === 0 ? null : figures?.percentiles?.find((entry) => entry.p === p)?.us ?? null;
}

const errorCount = (run) => sum(Object.values(run.errors || {}));
const isSlo = (run) => isNumber(run.slo_us) && run.slo_us > 0;
const isOpen = (run) => run.loop === "open";

// Gives each run a title of its own: repeats have the same name and follow one another.
function nameRuns(runs) {
  const seen = new Map();
  for (const run of runs) {
    const name = run.name || "run";
    seen.set(name, (seen.get(name) || 0) + 1);
    run.repeat = seen.get(name);
  }
  for (const run of runs) {
    const name = run.name || "run";
    run.title = seen.get(name) > 1 ? `${name} #${run.repeat}` : name;
  }
}

// Whether the run kept its SLO: a percentile of what was due, as the settings name it ("p99<=2ms").
function keptSlo(run, settings) {
  const wanted = Number(/^p([0-9.]+)/.exec(settings?.slo || "")?.[1]);
  return isSlo(run) && isNumber(run.within_slo) && run.within_slo * 100 >= wanted;
}

// The run at the rate a search found, else the best that kept the SLO, else the last one that says something about the
// server.
function firstShown({ runs, search, settings }) {
  const found = search?.rate_per_s;
  if (isNumber(found) && found > 0 && runs.some((run) => run.offered_per_s > 0)) {
    const distance = (run) => Math.abs(numberOr(run.offered_per_s, Infinity) - found);
    return runs.reduce((best, run) => (distance(run) < distance(best) ? run : best));
  }
  const kept = runs.filter((run) => keptSlo(run, settings));
  if (kept.length) return kept.reduce((best, run) => (run.goodput_per_s > best.goodput_per_s ? run : best));
  return [...runs].reverse().find((run) => !run.generator?.limited) || runs[runs.length - 1];
}

const mean = (values) => (values.length && values.every(isNumber) ? sum(values) / values.length : null);

// In the order of the runs, which a sweep gives its sense; a search jumps to and fro.
// Runs of one name: {runs, label, x: their mean rate, y: p => their mean percentile}.
function groupsOf(runs, search) {
  const groups = new Map();
  for (const run of runs.filter((candidate) => isNumber(candidate.achieved_per_s))) {
    const key = run.name || run.title;
    groups.set(key, [...(groups.get(key) || []), run]);
  }
  const all = [...groups.values()].map((same) => ({
    runs: same,
    label: (same[0].name || same[0].title).replace(/^(rate|concurrency) /, ""),
    offered: mean(same.map((run) => (run.offered_per_s > 0 ? run.offered_per_s : run.achieved_per_s))),
    x: mean(same.map((run) => run.achieved_per_s)),
    y: (p) => mean(same.map((run) => percentileOf(run.latency, p))),
  }));
  return search ? all.sort((a, b) => a.offered - b.offered) : all;
}

// Latency against throughput, each point with its load.
function drawCurve(results, chosen, choose) {
  const groups = groupsOf(results.runs, results.search);
  if (groups.length < 2) return null;
  const isLimited = (group) => group.runs.some((run) => run.generator?.limited);
  const line = (name, style, p) => ({
    name, style, dots: true,
    points: groups.map((group) => ({ x: group.x, y: group.y(p), hollow: isLimited(group),
      label: p === 99 && group.label, chosen: group.runs.includes(chosen) })),
  });
  const series = [line("p50", "soft", 50), line("p99", "accent", 99), line("p99.9", "dashed", 99.9)];
  const slos = [...new Set(results.runs.filter(isSlo).map((run) => run.slo_us))];
  const x = linearScale(groups.map((group) => group.x), true);
  const y = latencyScale([...series.flatMap((one) => one.points.map((point) => point.y)), ...slos]);
  const about = [groups.length < results.runs.length ? "one point a load, the mean of its repeats" : "one point a run",
    groups.some(isLimited) && "hollow: the generator was the limit"].filter(Boolean).join("; ");
  return section("curve", "Latency against throughput", about, plot({
    title: "Latency against throughput", height: 280, series,
    x: { scale: x, ticks: x.ticks.map((tick) => ({ x: tick, text: plain(tick) })), name: "answered requests a second",
      text: perSecond },
    y: { scale: y, text: latencyTickOrValue(y) },
    limits: slos.map((slo) => ({ y: slo, text: `SLO ${latency(slo)}` })),
    choose: (place) => choose(groups.find((group) => group.x === place)?.runs[0]),
  }));
}

// Ticks are round and shown short; values have three digits.
const latencyTickOrValue = (scale) => (us) => (scale.ticks.includes(us) ? latencyTick(us) : latency(us));

function runColumns(runs, chosen, choose) {
  const unit = commonUnit(runs.flatMap((run) => [percentileOf(run.latency, 99.9), run.latency?.max_us]));
  const button = (run) => el("button", { type: "button", "aria-pressed": String(run === chosen),
    onclick: () => choose(run) }, run.title);
  return [
    { name: "run", head: true, text: button },
    runs.some(isOpen) && number("offered/s", (run) => (isOpen(run) ? rate(run.offered_per_s) : NONE)),
    number("answered/s", (run) => rate(run.achieved_per_s)),
    runs.some(isSlo) && number("goodput/s", (run) => rate(run.goodput_per_s)),
    number("GB/s", (run) => grouped(run.gb_per_s, 3)),
    ...[50, 99, 99.9].map((p) => time(percentileName(p), unit, (run) => percentileOf(run.latency, p))),
    time("max", unit, (run) => (run.latency?.count === 0 ? null : run.latency?.max_us)),
    number("errors", (run) => flagged(errorCount(run))),
    runs.some((run) => run.dropped > 0) && number("dropped", (run) => flagged(run.dropped)),
    runs.some((run) => run.generator?.limited)
      && number("limit", (run) => (run.generator?.limited ? el("span", { class: "warn" }, "generator") : "")),
  ].filter(Boolean);
}

function drawRuns(results, chosen, choose) {
  return section("runs", "Runs", "choose one to see it below", table({
    label: "Runs", className: "runs", columns: runColumns(results.runs, chosen, choose), rows: results.runs,
    rowAttributes: (run) => ({ class: run === chosen ? "chosen" : null, onclick: () => choose(run) }),
  }));
}

// Means of repeated runs with their 95 % confidence intervals.
function drawRepeats(summary) {
  const rows = listOf(summary).filter((group) => group.repeats > 1);
  if (!rows.length) return null;
  const told = (group, p) => group.percentiles?.find((entry) => entry.p === p);
  const unit = commonUnit(rows.flatMap((group) => (group.percentiles || []).map((entry) => entry.mean_us)));
  const interval = (text, middle, half) => (isNumber(half) ? `${text(middle)} ± ${text(half)}` : text(middle));
  const times = (p) => number(`${percentileName(p)} ${unit.name}`,
    (group) => interval((us) => inUnit(us, unit), told(group, p)?.mean_us, told(group, p)?.ci95_us));
  const rates = (name, key) => number(name, (group) => interval(rate, group[key]?.mean, group[key]?.ci95));
  const columns = [
    { name: "load", head: true, text: (group) => group.name },
    number("repeats", (group) => count(group.repeats)),
    rates("answered/s", "achieved_per_s"), rates("goodput/s", "goodput_per_s"), ...[50, 99, 99.9].map(times),
  ];
  const about = "means with 95 % confidence intervals";
  return section("repeats", "Repeats", about, table({ label: "Repeats", rows, columns }));
}
