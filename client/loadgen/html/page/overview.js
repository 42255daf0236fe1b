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
    notices.get(key).runs.push(run.title);
  };
  for (const run of results.runs) {
    if (run.wrong > 0) add(true, "Wrong answers", `${count(run.wrong)} of ${count(run.verified)} verified`, run);
    if (run.generator?.limited) {
      add(false, "Generator-limited", run.generator.why || "the generator, not the server, was the limit", run);
    }
    if (run.complete === false) add(true, "Incomplete", "a sending process ended badly", run);
    if (run.interrupted) add(false, "Interrupted", "the window is shorter than it was to be", run);
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
  const steps = (Array.isArray(search.steps) ? search.steps : []).filter((step) => step && typeof step === "object");
  const title = found ? `Highest rate with ${goal}: ${perSecond(search.rate_per_s)}` : `No rate met ${goal}`;
  return section("search", title, [plural(steps.length, "step", "steps"), ...searchCaveats(search)].join("; "),
    steps.length > 0 && folded("Steps of the search", () => searchSteps(steps)));
}

// Whatever a step tells, a column each.
function searchSteps(steps) {
  const isPlain = (key) => steps.every((step) => step[key] === null || typeof step[key] !== "object");
  const keys = [...new Set(steps.flatMap((step) => Object.keys(step)))].filter(isPlain);
  const cell = (key) => (step) => {
    const value = step[key];
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (key.endsWith("_us")) return latency(value);
    if (key.endsWith("_per_s")) return perSecond(value);
    return isNumber(value) ? plain(value) : value ?? NONE;
  };
  const name = (key) => key.replace(/_(us|per_s)$/, "").replaceAll("_", " ");
  return table({ label: "Steps of the search", rows: steps, columns: keys.map((key, i) => (
    { name: name(key), text: cell(key), number: i > 0, head: i === 0 })) });
}
