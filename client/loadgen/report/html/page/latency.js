// One run: its headline figures, percentiles and timeline.

function drawFigures(run) {
  const figure = (name, { value, unit }, note, className, bad) => el("div", { class: className },
    el("dt", {}, name),
    el("dd", { class: bad ? "value bad" : "value" }, value, unit && el("span", { class: "unit" }, unit)),
    el("dd", { class: "note" }, note || "\u00a0"));
  const errors = errorCount(run);
  const percentile = (p) => latencyParts(percentileOf(run.latency, p));
  const answered = run.latency?.count;
  return el("dl", { class: "figures" },
    figure("Answered", { value: rate(run.achieved_per_s), unit: "/s" },
      isOpen(run) ? `of ${perSecond(run.offered_per_s)} offered` : "closed loop"),
    isSlo(run) && figure("Goodput", { value: rate(run.goodput_per_s), unit: "/s" },
      `${isNumber(run.within_slo) ? `${percent(run.within_slo, 1)} ` : ""}within ${latency(run.slo_us)}`),
    figure("Payload", { value: grouped(run.gb_per_s, run.gb_per_s < 10 ? 3 : 1), unit: "GB/s" },
      `${count(answered)} in ${seconds(run.duration_s)}`),
    figure("p50", percentile(50), "latency"),
    figure("p99", percentile(99), "latency", "lead"),
    figure("p99.9", percentile(99.9), `max ${latency(answered > 0 ? run.latency.max_us : null)}`),
    figure("Errors", { value: count(errors) }, `${percent(errors, run.sent)} of ${count(run.sent)} sent`, null,
      errors > 0),
    figure("Wrong", { value: count(run.wrong) }, `of ${count(run.verified)} verified`, null, run.wrong > 0));
}

function drawVerdicts(run) {
  // What limited the generator stands above all figures already.
  const said = run.generator?.limited && run.generator.why;
  const isNew = (verdict) => typeof verdict === "string" && !(said && verdict.includes(said));
  const verdicts = (run.verdicts || []).filter(isNew);
  return verdicts.length > 0 && el("ul", { class: "verdicts", "aria-label": "Verdicts" },
    verdicts.map((verdict) => el("li", {}, verdict)));
}

// The highest observation is the percentile that leaves none above it.
function percentilePoints(figures) {
  const points = (figures?.percentiles || []).filter((entry) => isNumber(entry.p) && entry.p >= 0 && entry.p < 100)
    .map((entry) => ({ x: entry.p, y: entry.us })).sort((a, b) => a.x - b.x);
  const top = figures?.count > 1 ? 100 * (1 - 1 / figures.count) : 0;
  if (points.length && top > points[points.length - 1].x) points.push({ x: top, y: figures.max_us, isMax: true });
  return points;
}

// Latency over percentiles; nothing where no line has a point.
function percentilePlot(title, series, limits = []) {
  const all = series.flatMap((line) => line.points);
  if (!all.length) return null;
  const x = ninesScale(all.map((point) => point.x));
  const y = latencyScale(all.map((point) => point.y));
  const marks = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999].filter((p) => x.at(p) >= -1e-9 && x.at(p) <= 1 + 1e-9);
  const isTop = (p) => all.some((point) => point.isMax && point.x === p);
  return plot({ title, height: 280, series, limits,
    x: { scale: x, ticks: marks.map((p) => ({ x: p, text: plain(p) })), name: "percentile, spaced by its nines",
      text: (p) => (isTop(p) ? "max" : percentileName(p)) },
    y: { scale: y, text: latencyTickOrValue(y) } });
}

function drawPercentiles(run) {
  // In a closed loop a request is due when it is sent: both times are one.
  const kinds = [
    { name: "latency", of: run.latency, style: "accent" },
    isOpen(run) && { name: "service time", of: run.service_time, style: "soft" },
    isOpen(run) && { name: "schedule lag", of: run.lag },
  ].filter((kind) => kind?.of?.count > 0);
  const series = kinds.filter((kind) => kind.style).map((kind) => (
    { name: kind.name, style: kind.style, dots: true, points: percentilePoints(kind.of) }));
  const limits = isSlo(run) ? [{ y: run.slo_us, text: `SLO ${latency(run.slo_us)}` }] : [];
  const drawn = percentilePlot("Latency by percentile", series, limits);
  const about = isOpen(run) ? "latency counts from the scheduled send, service time from the actual one"
    : "closed loop: a slow answer delays the next request, so stalls weigh less than they would on users";
  return drawn && section("percentiles", "Latency by percentile", about,
    el("div", { class: "split" }, drawn, percentileTable(kinds)));
}

// The kinds of requests of a mix, each with its own latency.
function drawClasses(run) {
  const rows = listOf(run.classes);
  if (rows.length < 2) return null;
  const unit = commonUnit(rows.map((one) => one.latency?.max_us));
  return section("classes", "By kind of request", null, table({ label: "By kind of request", rows, columns: [
    { name: "kind", head: true, text: (one) => one.name ?? NONE },
    number("answered/s", (one) => rate(one.achieved_per_s)), number("GB/s", (one) => grouped(one.gb_per_s, 3)),
    ...[50, 90, 99, 99.9].map((p) => time(percentileName(p), unit, (one) => percentileOf(one.latency, p))),
    time("max", unit, (one) => (one.latency?.count > 0 ? one.latency.max_us : null)),
  ] }));
}

function percentileTable(kinds) {
  const told = kinds.flatMap((kind) => (kind.of.percentiles || []).map((entry) => entry.p));
  const percentiles = [...new Set(told)].sort((a, b) => a - b);
  const rows = [
    { name: "mean", of: (figures) => figures.mean_us },
    { name: "min", of: (figures) => figures.min_us },
    ...percentiles.map((p) => ({ name: percentileName(p), of: (figures) => percentileOf(figures, p) })),
    { name: "max", of: (figures) => figures.max_us },
  ];
  // The two that a reader compares share a unit; the lag is far smaller, as it should be.
  const unitOf = (some) => commonUnit(some.flatMap((kind) => rows.map((row) => row.of(kind.of))));
  const shared = unitOf(kinds.filter((kind) => kind.style));
  return table({
    caption: "Percentiles", rows: [...rows, { name: "count", text: (figures) => count(figures.count) }],
    columns: [{ name: "", head: true, text: (row) => row.name }, ...kinds.map((kind) => {
      const unit = kind.style ? shared : unitOf([kind]);
      return { name: `${kind.name} ${unit.name}`, number: true,
        text: (row) => (row.text ? row.text(kind.of) : inUnit(row.of(kind.of), unit)) };
    })],
  });
}

// The timeline's points count what happened in the interval that ends at t_s.
function timelineRates(points) {
  return points.map((point, i) => {
    const length = i > 0 ? point.t_s - points[i - 1].t_s : point.t_s > 0 ? point.t_s : points[1]?.t_s - point.t_s;
    const per = (n) => (isNumber(n) && length > 0 ? n / length : null);
    // Where nothing was answered there is no latency, though a zero may be written.
    const times = point.answered === 0 ? { p50_us: null, p99_us: null } : {};
    return { ...point, ...times, sent_rate: per(point.sent), answered_rate: per(point.answered),
      error_rate: per(point.errors) };
  });
}

// A day in half seconds has more intervals than a screen has pixels: neighbours are drawn as one, whose p99 is the
// highest of them, so that no stall is lost, and whose p50 is their mean.
const MOST_INTERVALS = 600;

function mergeIntervals(timeline) {
  const points = timeline.filter((point) => isNumber(point?.t_s)).sort((a, b) => a.t_s - b.t_s);
  const length = Math.ceil(points.length / MOST_INTERVALS);
  if (length <= 1) return { points, length: 1 };
  const merged = [];
  for (let i = 0; i < points.length; i += length) {
    const some = points.slice(i, i + length);
    const answered = some.filter((point) => point.answered > 0);
    const total = (key) => sum(some.map((point) => point[key]));
    merged.push({ t_s: some[some.length - 1].t_s, sent: total("sent"), answered: total("answered"),
      errors: total("errors"), p50_us: mean(answered.map((point) => point.p50_us)),
      p99_us: greatest(answered.map((point) => point.p99_us)) ?? null });
  }
  return { points: merged, length };
}

function drawTimeline(run) {
  const merged = mergeIntervals(Array.isArray(run.timeline) ? run.timeline : []);
  const points = timelineRates(merged.points);
  if (points.length < 2) return null;
  const about = merged.length === 1 ? "rates per second"
    : `each of ${count(merged.length)} that were measured: rates per second, mean p50, highest p99`;
  const line = (name, style, key, text) => (
    { name, style, text, points: points.map((point) => ({ x: point.t_s, y: point[key] })) });
  const rates = [line("sent", "soft", "sent_rate", perSecond), line("answered", "accent", "answered_rate", perSecond)];
  if (points.some((point) => point.errors > 0)) rates.push(line("errors", "wrong", "error_rate", perSecond));
  const times = [line("p50", "soft", "p50_us"), line("p99", "accent", "p99_us")];
  const values = (series) => series.flatMap((one) => one.points.map((point) => point.y));
  const span = linearScale(points.map((point) => point.t_s), true);
  const end = points[points.length - 1].t_s;
  const scale = { ...span, max: end, at: (t) => t / end };
  const ticks = span.ticks.filter((t) => t <= end).map((t) => ({ x: t, text: plain(t) }));
  const x = { scale, ticks, name: "seconds", text: seconds };
  const rateScale = linearScale(values(rates), true);
  const timeScale = latencyScale(values(times));
  const cursor = new Cursor();
  return section("timeline", "Timeline", `${plural(points.length, "interval", "intervals")}; ${about}`,
    plot({ title: "Requests over time", height: 190, series: rates, cursor, x, y: { scale: rateScale, text: plain } }),
    plot({ title: "Latency over time", height: 190, series: times, cursor, x,
      y: { scale: timeScale, text: latencyTickOrValue(timeScale) },
      limits: isSlo(run) ? [{ y: run.slo_us, text: `SLO ${latency(run.slo_us)}` }] : [] }),
    folded("Values of the timeline", () => timelineTable(points)));
}

function timelineTable(points) {
  const unit = commonUnit(points.map((point) => point.p99_us));
  return table({ label: "Timeline", rows: points, columns: [
    { name: "until", head: true, text: (point) => seconds(point.t_s) },
    number("sent", (point) => count(point.sent)), number("answered", (point) => count(point.answered)),
    number("errors", (point) => count(point.errors)),
    time("p50", unit, (point) => point.p50_us), time("p99", unit, (point) => point.p99_us),
  ] });
}
