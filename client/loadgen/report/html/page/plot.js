// A plot of lines with a legend above it that shows the values under the cursor, by pointer or by arrow keys.
//
// plot({title, height, x: {scale, ticks: [{x, text}], name, text}, y: {scale, text}, series, limits, cursor, choose})
//   series  [{name, style, points: [{x, y, label}], dots, text}]; a null y leaves a gap
//   limits  [{y, text}], drawn as dashed lines where they are in range
//   cursor  shared by plots over the same x: they move together
//   choose  called with the x under the pointer on a click
const MARGIN = { left: 62, right: 22, top: 12, bottom: 34 };
let plotCount = 0;

class Cursor {
  constructor() { this.watchers = []; }
  watch(watcher) { this.watchers.push(watcher); }
  move(x) { for (const watcher of this.watchers) watcher(x); }
}

function plot(options) {
  const { title, series } = options;
  const id = `plot-${++plotCount}`;
  const stops = [...new Set(series.flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b);
  const legend = plotLegend(options);
  const drawing = svg("svg", { role: "img", "aria-labelledby": `${id}-title ${id}-about`, tabindex: "0" });
  const figure = el("figure", { class: "plot", "data-plot": title }, legend.node, drawing);
  const cursor = options.cursor || new Cursor();
  let place = null;
  let frame = null;

  const draw = () => {
    const width = Math.max(280, Math.round(figure.clientWidth || 640));
    if (frame && frame.width === width) return;
    frame = plotFrame(options, width);
    drawing.setAttribute("viewBox", `0 0 ${width} ${frame.height}`);
    drawing.replaceChildren(svg("title", { id: `${id}-title` }, title),
      svg("desc", { id: `${id}-about` }, plotSummary(options)), ...drawAxes(options, frame),
      ...drawSeries(options, frame), ...drawLimitNames(options, frame));
    place = svg("g", { class: "place" });
    drawing.append(place);
  };
  cursor.watch((x) => {
    legend.show(x);
    if (place) place.replaceChildren(...(x === null ? [] : drawPlace(options, frame, x)));
  });

  let at = -1;
  const moveTo = (i) => { at = i; cursor.move(i < 0 ? null : stops[i]); };
  const nearest = (event) => {
    const box = drawing.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * frame.width;
    const far = (x) => Math.abs(frame.px(x) - wanted);
    return stops.reduce((best, x, i) => (far(x) < far(stops[best]) ? i : best), 0);
  };
  drawing.addEventListener("pointermove", (event) => stops.length && moveTo(nearest(event)));
  drawing.addEventListener("pointerleave", () => moveTo(-1));
  drawing.addEventListener("blur", () => moveTo(-1));
  drawing.addEventListener("click", (event) => options.choose && stops.length && options.choose(stops[nearest(event)]));
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -stops.length, End: stops.length }[event.key];
    if (!step || !stops.length) return;
    event.preventDefault();
    moveTo(Math.min(stops.length - 1, Math.max(0, at + step)));
  });
  // In the next frame: drawing changes the figure's height, which the observer would otherwise be told of at once.
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(figure);
  return figure;
}

function plotFrame({ x, y, height = 240 }, width) {
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  return {
    width, height, inner,
    px: (value) => MARGIN.left + x.scale.at(value) * inner.width,
    py: (value) => MARGIN.top + (1 - Math.min(1, Math.max(0, y.scale.at(value)))) * inner.height,
  };
}

function drawAxes({ x, y, limits = [] }, frame) {
  const { px, py, width, height } = frame;
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const parts = [];
  for (const tick of y.scale.ticks) {
    const base = tick === y.scale.min;
    parts.push(svg("line", { class: base ? "axis" : "grid", x1: MARGIN.left, x2: right, y1: py(tick), y2: py(tick) }),
      svg("text", { x: MARGIN.left - 8, y: py(tick) + 4, "text-anchor": "end" }, y.text(tick)));
  }
  let free = -Infinity;
  for (const tick of x.ticks) {
    const place = px(tick.x);
    const half = tick.text.length * 3.4 + 5;
    if (place - half < free) continue;
    free = place + half;
    parts.push(svg("line", { class: "axis", x1: place, x2: place, y1: bottom, y2: bottom + 4 }),
      svg("text", { x: place, y: bottom + 16, "text-anchor": "middle" }, tick.text));
  }
  parts.push(svg("text", { x: right, y: height - 4, "text-anchor": "end" }, x.name));
  for (const limit of limits) {
    if (!(limit.y >= y.scale.min && limit.y <= y.scale.max)) continue;
    parts.push(svg("line", { class: "limit", x1: MARGIN.left, x2: right, y1: py(limit.y), y2: py(limit.y) }));
  }
  return parts;
}

// After the lines, and where these are farthest: at either end, above or below the limit.
function drawLimitNames({ y, series, limits = [] }, frame) {
  const [left, right] = [MARGIN.left, frame.width - MARGIN.right];
  const dots = series.flatMap((line) => line.points.filter((point) => isNumber(point.y)))
    .map((point) => ({ x: frame.px(point.x), y: frame.py(point.y) }));
  return limits.filter((limit) => limit.y >= y.scale.min && limit.y <= y.scale.max).map((limit) => {
    const width = limit.text.length * 7;
    const at = frame.py(limit.y);
    const places = [-5, 14].flatMap((dy) => [
      { x: right, y: at + dy, anchor: "end", from: right - width, to: right },
      { x: left + 6, y: at + dy, anchor: "start", from: left, to: left + 6 + width }])
      .filter((place) => place.y > 10 && place.y < frame.height - MARGIN.bottom);
    const room = (place) => least([100, ...dots.filter((dot) => dot.x >= place.from - 20 && dot.x <= place.to + 20)
      .map((dot) => Math.abs(dot.y - place.y + 4))]);
    const best = places.reduce((a, b) => (room(b) > room(a) + 4 ? b : a));
    return svg("text", { class: "limit-name", x: best.x, y: best.y, "text-anchor": best.anchor }, limit.text);
  });
}

// Above their dots; one that would lie upon the name before it is left out.
function drawPointNames(line, frame) {
  const names = [];
  let last = null;
  for (const point of line.points.filter((candidate) => candidate.label && isNumber(candidate.y))) {
    const place = { x: frame.px(point.x), y: frame.py(point.y) - 7 };
    const near = last && Math.abs(place.x - last.x) < point.label.length * 7 && Math.abs(place.y - last.y) < 12;
    if (near) continue;
    last = place;
    names.push(svg("text", { class: "point-name", x: place.x.toFixed(1), y: place.y.toFixed(1),
      "text-anchor": "middle" }, point.label));
  }
  return names;
}

function drawSeries({ series }, frame) {
  const parts = [];
  for (const line of series) {
    let path = "";
    let down = false;
    for (const point of line.points) {
      const known = isNumber(point.y);
      if (known) path += `${down ? "L" : "M"}${frame.px(point.x).toFixed(1)} ${frame.py(point.y).toFixed(1)}`;
      down = known;
    }
    parts.push(svg("path", { class: `line ${line.style}`, d: path, "data-series": line.name }));
    if (!line.dots && line.points.length > 1) continue;
    for (const point of line.points.filter((candidate) => isNumber(candidate.y))) {
      parts.push(svg("circle", { class: `dot ${line.style}${point.hollow ? " hollow" : ""}`,
        cx: frame.px(point.x).toFixed(1), cy: frame.py(point.y).toFixed(1), r: point.chosen ? 5 : 3 }));
    }
    parts.push(...drawPointNames(line, frame));
  }
  return parts;
}

function drawPlace({ series }, frame, x) {
  const place = frame.px(x);
  const dots = series.map((line) => {
    const point = line.points.find((candidate) => candidate.x === x);
    if (!point || !isNumber(point.y)) return null;
    return svg("circle", { class: `dot ${line.style}`, cx: place, cy: frame.py(point.y), r: 4 });
  });
  return [svg("line", { class: "cursor", x1: place, x2: place, y1: MARGIN.top, y2: frame.height - MARGIN.bottom }),
    ...dots.filter(Boolean)];
}

function plotLegend({ series, x, y }) {
  const at = el("li", { class: "at" });
  const values = series.map(() => el("b", {}));
  const node = el("ul", { class: "legend", "aria-live": "polite" }, series.map((line, i) =>
    el("li", {}, svg("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" },
      svg("path", { class: `line ${line.style}`, d: "M1 4H17" })), line.name, values[i])), at);
  const show = (place) => {
    at.textContent = place === null ? "" : `at ${x.text(place)}`;
    series.forEach((line, i) => {
      const point = place === null ? null : line.points.find((candidate) => candidate.x === place);
      values[i].textContent = point ? (isNumber(point.y) ? (line.text || y.text)(point.y) : NONE) : "";
    });
  };
  return { node, show };
}

// What the lines say, in words, for those who do not see them.
function plotSummary({ series, x, y }) {
  return series.map((line) => {
    const known = line.points.filter((point) => isNumber(point.y));
    if (!known.length) return `${line.name}: no values.`;
    const low = known.reduce((a, b) => (b.y < a.y ? b : a));
    const high = known.reduce((a, b) => (b.y > a.y ? b : a));
    const text = line.text || y.text;
    return `${line.name}: from ${text(low.y)} at ${x.text(low.x)} to ${text(high.y)} at ${x.text(high.x)}.`;
  }).join(" ");
}
