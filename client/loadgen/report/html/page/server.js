// One run: what the server said of itself, errors, the generator, and the settings.

// The mean request's way, from what the client and the server each measured. Execution is a mean over batches, so the
// parts need not add up to the whole; what is left over is never drawn below zero.
function stageParts(run) {
  const stages = run.server?.stages || {};
  const inside = stages.request?.mean_us;
  const whole = run.service_time?.count > 0 ? run.service_time.mean_us : run.latency?.mean_us;
  if (!isNumber(inside) || !isNumber(whole)) return null;
  // A stage that only some requests pass takes that much less of the mean one.
  const passed = (stage) => Math.min(1, numberOr(stage.count, 0) / Math.max(1, numberOr(stages.request.count, 0)));
  const share = (stage) => (isNumber(stage?.mean_us) ? stage.mean_us * passed(stage) : 0);
  const steps = [
    { name: "queue", about: "waiting for memory", us: share(stages.queue) },
    { name: "batch", about: "in an open batch until its launch", us: share(stages.batch) },
    { name: "execution", about: "from a batch's launch to its end", us: numberOr(stages.execution?.mean_us, 0) },
  ];
  const rest = Math.max(0, inside - sum(steps.map((step) => step.us)));
  const parts = [...steps, { name: "rest of the server", about: "reading, copying, answering", us: rest },
    { name: "transport", about: "network, gRPC and the client", us: Math.max(0, whole - inside) }];
  return parts.map((part, i) => ({ ...part, key: `part-${i}` }));
}

function stageBar(parts, all) {
  const words = parts.map((part) => `${part.name} ${latency(part.us)}`).join(", ");
  return el("div", { class: "stack", role: "img", "aria-label": `Mean request: ${words}` },
    parts.filter((part) => part.us > 0).map((part) => {
      const title = `${part.name}: ${latency(part.us)} (${percent(part.us, all)})`;
      const piece = el("span", { class: part.key, title });
      piece.style.flexGrow = part.us / all;
      return piece;
    }));
}

function drawParts(parts) {
  const all = sum(parts.map((part) => part.us));
  const unit = commonUnit(parts.map((part) => part.us));
  return el("div", { id: "stages" },
    el("h3", {}, "Where a request's time goes ", el("span", { class: "muted" }, "on average")), stageBar(parts, all),
    table({ label: "The mean request by stage", rows: parts, columns: [
      { name: "stage", head: true, text: (part) => [el("span", { class: `key ${part.key}` }), part.name] },
      { name: "", text: (part) => part.about, wrap: true, className: "muted aside" },
      time("mean", unit, (part) => part.us), number("share", (part) => percent(part.us, all)),
    ] }));
}

function drawStages(run) {
  const stages = run.server.stages || {};
  const named = [["request in the server", stages.request], ["queue", stages.queue], ["batch", stages.batch],
    ["execution, by batch", stages.execution]];
  const rows = named.filter(([, stage]) => stage).map(([name, stage]) => ({ name, ...stage }));
  const unit = commonUnit(rows.map((row) => row.p99_us));
  const parts = stageParts(run);
  return [
    parts && drawParts(parts),
    rows.length > 0 && table({ caption: "Stages", about: "as the server counted them; quantiles within their buckets",
      rows, columns: [
        { name: "stage", head: true, text: (row) => row.name },
        number("count", (row) => count(row.count)), time("mean", unit, (row) => row.mean_us),
        time("p50 ≈", unit, (row) => row.p50_us), time("p99 ≈", unit, (row) => row.p99_us),
      ] }),
  ];
}

function bucketName(bucket, text) {
  if (!isNumber(bucket.le)) return `> ${text(bucket.above)}`;
  return bucket.le === bucket.above + 1 ? text(bucket.le) : `${text(bucket.above + 1)}–${text(bucket.le)}`;
}

function sizesTable(caption, sizes, what) {
  if (!sizes?.buckets?.length) return null;
  const about = `mean ${threeDigits(sizes.mean)}, p99 ≈ ${count(sizes.p99)}`;
  const rows = sizes.buckets.map((bucket) => ({ name: bucketName(bucket, count), n: bucket.n }));
  return barTable({ caption, about, what, unit: "batches", rows });
}

const CLOSING = { idle: "nothing else was running", drained: "all that had arrived was taken", full: "no room left",
  delay: "it had waited long enough", large: "a request of its own batch" };

const counted = (counts) => Object.entries(counts || {}).map(([name, n]) => ({ name, n })).sort((a, b) => b.n - a.n);

function closingTable(closing) {
  const rows = counted(closing);
  const words = rows.filter((row) => CLOSING[row.name]).map((row) => `${row.name}: ${CLOSING[row.name]}`);
  return rows.length > 0 && el("div", {},
    barTable({ caption: "Why batches were closed", what: "reason", unit: "batches", rows }),
    el("p", { class: "foot" }, words.join(" · ")));
}

// Where several servers were asked, the rest of the section is their sum.
function drawEachServer(servers) {
  const rows = listOf(servers);
  if (rows.length < 2) return null;
  const unit = commonUnit(rows.map((one) => one.stages?.request?.p99_us));
  const per = (one) => (one.window_s > 0 && isNumber(one.requests) ? perSecond(one.requests / one.window_s) : NONE);
  return table({ caption: "By server", about: "all else here is their sum", className: "servers", rows, columns: [
    { name: "server", head: true, text: (one) => one.address ?? NONE },
    number("requests", (one) => count(one.requests)), number("rate", per),
    time("p99", unit, (one) => one.stages?.request?.p99_us),
    number("requests a batch", (one) => grouped(one.batches?.requests?.mean, 1)),
    number("CPU cores", (one) => grouped(one.cpu_cores, 2))] });
}

function drawServer(run) {
  const { server } = run;
  if (!server) {
    return section("server", "Server", null, el("p", { class: "muted" },
      "The server's metrics were not read, so there is nothing to say of its queues and batches."));
  }
  const backend = server.backend && `${server.backend} backend`;
  const what = [backend, server.version, server.commit, server.address].filter(Boolean).join(" · ");
  const rejected = counted(server.rejected);
  return section("server", run.servers?.length > 1 ? "Servers" : "Server", what, drawEachServer(run.servers),
    el("div", { class: run.servers?.length > 1 ? "halves below" : "halves" }, drawStages(run)),
    el("div", { class: "halves below", id: "batches" },
      sizesTable("Requests in a batch", server.batches?.requests, "requests"),
      sizesTable("Rows in a batch", server.batches?.rows, "rows"),
      closingTable(server.closing),
      rejected.length > 0 && barTable({ caption: "Refused before they ran", what: "reason", unit: "requests",
        rows: rejected, bad: () => true }),
      serverTotals(server)));
}

function serverTotals(server) {
  const length = server.window_s;
  const per = (n) => (isNumber(n) && length > 0 ? perSecond(n / length) : NONE);
  const through = (n) => (isNumber(n) && length > 0 ? throughput(n / length) : NONE);
  const rows = [
    ["requests", count(server.requests), per(server.requests)],
    ["batches", count(server.batches?.count), per(server.batches?.count)],
    ["rows", count(server.rows), per(server.rows)],
    ["tensors read", bytes(server.input_bytes), through(server.input_bytes)],
    ["tensors written", bytes(server.output_bytes), through(server.output_bytes)],
    ["copied in", bytes(server.copied_in_bytes), through(server.copied_in_bytes)],
    ["copied out", bytes(server.copied_out_bytes), through(server.copied_out_bytes)],
    ["CPU", isNumber(server.cpu_cores) ? `${server.cpu_cores.toFixed(2)} cores` : NONE, ""],
    ["resident memory", bytes(server.resident_bytes), ""],
    ...Object.entries(server.gpu || {}).map(([name, value]) => [name, plain(value), ""]),
  ];
  return table({ caption: "Totals", about: `of ${seconds(length)}`, rows, columns: [
    { name: "", head: true, text: (row) => row[0] }, number("in the window", (row) => row[1]),
    number("rate", (row) => row[2])] });
}

// Where the requests went, and how many of the failures a retry made good.
function drawAddresses(run) {
  const rows = listOf(run.addresses);
  if (rows.length < 2) return null;
  return table({ caption: "By address", about: "of the window's requests", className: "addresses", rows, columns: [
    { name: "address", head: true, text: (one) => one.address ?? NONE },
    number("attempts", (one) => count(one.attempts)), number("answered", (one) => count(one.answered)),
    number("failed", (one) => flagged(one.failed)), number("share", (one) => percent(one.attempts, run.attempts))] });
}

function drawErrors(run) {
  const rows = counted(run.errors);
  const generator = run.generator || {};
  const checks = [
    ["sent", count(run.sent), ""],
    ["answered", count(run.latency?.count), percent(run.latency?.count, run.sent)],
    ["errors", count(errorCount(run)), percent(errorCount(run), run.sent)],
    run.warmup_errors && counted(run.warmup_errors).length > 0 &&
      ["errors of the warm-up", count(sum(Object.values(run.warmup_errors))), ""],
    run.attempts > run.sent && ["attempts", count(run.attempts), ""],
    run.retries > 0 && ["retries", count(run.retries), percent(run.retries, run.attempts)],
    run.throttled > 0 && ["retries not allowed", count(run.throttled), ""],
    ["dropped: never sent", count(run.dropped), percent(run.dropped, numberOr(run.sent, 0) + numberOr(run.dropped, 0))],
    ["sent late", count(run.late), percent(run.late, run.sent)],
    ["verified", count(run.verified), percent(run.verified, run.latency?.count)],
    ["wrong", count(run.wrong), percent(run.wrong, run.verified)],
    ["generator's CPU", isNumber(generator.cpu_cores) ? `${generator.cpu_cores.toFixed(2)} cores` : NONE, ""],
    isNumber(generator.busiest_thread) && ["its busiest thread", "", percent(generator.busiest_thread, 1)],
    isNumber(run.server_cores) && ["server's CPU", `${run.server_cores.toFixed(2)} cores`, ""],
    isNumber(run.machine_busy) && ["this machine", "", percent(run.machine_busy, 1)],
  ].filter(Boolean);
  const firsts = [["The first error", run.first_error], ["The first wrong answer", run.first_wrong]];
  return section("errors", "Errors and checks", null, el("div", { class: "halves" },
    rows.length > 0 ? barTable({ caption: "Errors by code", what: "code", unit: "requests", rows, bad: () => true })
      : el("p", { class: "muted" }, "No request failed."),
    table({ caption: "Requests", rows: checks, columns: [{ name: "", head: true, text: (row) => row[0] },
      number("", (row) => row[1]), number("share", (row) => row[2])] }),
    counted(run.retried).length > 0 && barTable({ caption: "Attempts made again", about: "by the code they failed with",
      what: "code", unit: "attempts", rows: counted(run.retried) }),
    drawAddresses(run)),
    firsts.filter(([, text]) => typeof text === "string" && text).map(([what, text]) =>
      el("p", { class: "foot" }, `${what}: `, el("code", {}, text))));
}

function drawSettings(results) {
  const rows = Object.entries(results.settings || {});
  if (!rows.length) return null;
  const text = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
  const columns = [{ name: "setting", head: true, text: ([key]) => key },
    { name: "value", text: ([, value]) => text(value), wrap: true }];
  const half = rows.length > 8 ? Math.ceil(rows.length / 2) : rows.length;
  const parts = [rows.slice(0, half), rows.slice(half)].filter((part) => part.length > 0);
  return section("settings", "Settings", null, el("div", { class: "halves" },
    parts.map((part) => table({ label: "Settings", rows: part, columns }))));
}
