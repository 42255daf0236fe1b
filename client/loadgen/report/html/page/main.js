// Draws the page, and its lower half anew when another run is chosen.
const results = JSON.parse(document.getElementById("results").textContent);
const report = document.getElementById("report");
const many = results.runs?.length > 1;

function showRun(chosen) {
  const choose = (run) => run && run !== chosen && showRun(run);
  const focused = document.activeElement?.closest(".runs button") !== null && document.activeElement !== document.body;
  if (many) {
    const drawn = [drawCurve(results, chosen, choose), drawRuns(results, chosen, choose), drawRepeats(results.summary)];
    overview.replaceChildren(...drawn.filter(Boolean));
  }
  details.replaceChildren(...[
    many && el("div", { class: "run-name" }, el("h2", {}, chosen.title,
      chosen.generator?.limited && el("span", { class: "tag" }, "generator-limited"))),
    drawFigures(chosen), drawVerdicts(chosen), drawGenerators(chosen), drawPercentiles(chosen), drawClasses(chosen),
    drawTimeline(chosen), drawServer(chosen), drawErrors(chosen),
  ].filter(Boolean));
  if (focused) overview.querySelector(".chosen button")?.focus();
}

const overview = el("div", { id: "overview" });
const details = el("div", { id: "details", "aria-live": "off" });
if (results.comparison) {
  fill(report, {}, [drawTop(results), ...drawComparison(results.comparison)]);
} else {
  nameRuns(results.runs);
  fill(report, {}, [drawTop(results), drawNotices(results), drawSearch(results.search), overview, details,
    drawSettings(results)]);
  showRun(firstShown(results));
}
