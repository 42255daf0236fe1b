// The top of the page: what was run, what must be known before any figure is read, and the runs side by side.

function drawTop(results) {
  const tool = results.tool || {};
  const target = results.settings?.address || results.settings?.target;
  const download = el("a", { href: "#", download: "softmax-loadgen.json", title: "Save the results as JSON" }, "JSON");
  download.addEventListener("click", () => {
    const text = document.getElementById("results").textContent;
    download.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  });
  return [
    el("div", { class: "top" },
      el("div", {}, el("p", { class: "by" }, aboutRun(results)),
        el("h1", {}, results.comparison ? "Before and after" : target ? `Load on ${target}` : "Load report")),
      el("div", { class: "tools" }, download)),
    tool.command && el("pre", { class: "command", "aria-label": "Command" }, tool.command),
  ];
}

// "softmax-loadgen 0.1.0 (1a2b3c), gRPC 1.51.1; 2026-01-31T12:00:00Z on host, 16 cores of ..., Linux 6.1"
function aboutRun({ tool = {}, machine = {}, date }) {
  const program = ["softmax-loadgen", tool.version, tool.commit && `(${tool.commit})`].filter(Boolean).join(" ");
  const place = [machine.host, machine.processor && `${machine.cores} cores of ${machine.processor}`, machine.system];
  return [[program, tool.grpc && `gRPC ${tool.grpc}`].filter(Boolean).join(", "),
    [date, place.some(Boolean) && place.filter(Boolean).join(", ")].filter(Boolean).join(" on ")].filter(Boolean)
    .join("; ");
}

// {bad, head, text, run}, the worst first.
function noticesOf(run) {
  const notices = [];
  const add = (bad, head, text) => notices.push({ bad, head, text, run });
  if (run.wrong > 0) add(true, "Wrong answers", `${count(run.wrong)} of ${count(run.verified)} verified`);
  if (run.complete === false) add(true, "Incomplete", "a sending process ended badly");
  if (run.generator?.limited) {
    add(false, "Generator-limited", run.generator.why || "the generator, not the server, was the limit");
  }
  if (run.interrupted) add(false, "Interrupted", "the window is shorter than it was to be");
  for (const warning of run.server?.warnings || []) add(false, "Server", warning);
  return notices;
}

const bySame = (items, key) => items.reduce((groups, item) =>
  groups.set(key(item), [...(groups.get(key(item)) || []), item]), new Map());

// What is said of several runs is said once, with their names; of many runs in different words, by an example.
function drawNotices(results) {
  const several = results.runs.length > 1;
  const all = results.runs.flatMap(noticesOf);
  const names = (notices) => (notices.length > 3 ? `${count(notices.length)} of ${count(results.runs.length)} runs`
    : notices.map((notice) => notice.run.title).join(", "));
  const line = (notice, where) => el("li", { class: notice.bad ? "is-bad" : "is-warn" }, el("b", {}, notice.head), " ",
    notice.text, several && el("span", { class: "muted" }, ` (${where})`));
  const lines = [...bySame(all, (notice) => notice.head).values()].flatMap((alike) => {
    const texts = [...bySame(alike, (notice) => notice.text).values()];
    if (texts.length <= 3) return texts.map((same) => line(same[0], names(same)));
    return [line(alike[0], `${alike[0].run.title}, and ${plural(alike.length - 1, "other run", "other runs")}`)];
  });
  return lines.length > 0 && el("ul", { class: "notices", "aria-label": "Warnings" }, lines);
}

// What keeps the found rate from being the server's last word.
function searchCaveats(search) {
  return [
    search.at_upper_bound && "the highest rate allowed met it: the server may do more",
    search.generator_limited && "the generator could not offer more: the server may do more",
    search.stopped && "the search was cut short",
  ].filter(Boolean);
}

function drawSearch(search) {
  if (!search) return null;
  const goal = `${percentileName(search.percentile)} ≤ ${latency(search.slo_us)}`;
  const found = isNumber(search.rate_per_s) && search.rate_per_s > 0;
  const steps = listOf(search.steps);
  const title = found ? `Highest rate with ${goal}: ${perSecond(search.rate_per_s)}` : `No rate met ${goal}`;
  return section("search", title, [plural(steps.length, "step", "steps"), ...searchCaveats(search)].join("; "),
    steps.length > 0 && folded("Steps of the search", () => searchSteps(steps)));
}

function searchSteps(steps) {
  const yesOrNo = (value) => (typeof value === "boolean" ? (value ? "yes" : "no") : NONE);
  return table({ label: "Steps of the search", rows: steps, columns: [
    { name: "rate", head: true, text: (step) => perSecond(step.rate_per_s) },
    number("kept", (step) => yesOrNo(step.kept)),
    number("generator limited", (step) => yesOrNo(step.generator_limited)),
  ] });
}
