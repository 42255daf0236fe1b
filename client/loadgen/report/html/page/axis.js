// Scales: {min, max, ticks: [value], at: value -> 0..1}.

function linearScale(values, fromZero) {
  const known = values.filter(isNumber);
  let min = fromZero ? 0 : least(known);
  let max = greatest(known);
  if (!known.length) [min, max] = [0, 1];
  if (!(max > min)) max = min + (Math.abs(min) || 1);
  const step = niceStep((max - min) / 5);
  const first = Math.floor(min / step + 1e-9);
  const last = Math.ceil(max / step - 1e-9);
  const ticks = [];
  for (let i = first; i <= last; ++i) ticks.push(i * step);
  const [low, high] = [first * step, last * step];
  return { min: low, max: high, ticks, log: false, at: (x) => (x - low) / (high - low) };
}

function niceStep(raw) {
  const power = 10 ** Math.floor(Math.log10(raw));
  const ratio = raw / power;
  return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

// Steps of 1, 2, 5 while there are few decades, else whole decades.
function logScale(values) {
  const known = values.filter((x) => isNumber(x) && x > 0);
  if (!known.length) return linearScale(values, true);
  const steps = (digits) => {
    const all = [];
    for (let decade = -6; decade <= 15; ++decade) for (const digit of digits) all.push(digit * 10 ** decade);
    return all;
  };
  const within = (marks) => {
    const [low, high] = [least(known), greatest(known)];
    const below = marks.filter((x) => x <= low * 1.0001).pop() ?? marks[0];
    const above = marks.find((x) => x >= high * 0.9999 && x > below) ?? marks[marks.length - 1];
    return marks.filter((x) => x >= below && x <= above);
  };
  let ticks = within(steps([1, 2, 5]));
  if (ticks.length > 8) ticks = within(steps([1]));
  const [low, high] = [ticks[0], ticks[ticks.length - 1]];
  const span = Math.log(high / low);
  return { min: low, max: high, ticks, log: true, at: (x) => Math.log(Math.max(x, low) / low) / span };
}

// Latencies that span much are drawn over their logarithm: a tail would flatten all the rest.
function latencyScale(values) {
  const known = values.filter((x) => isNumber(x) && x > 0);
  const spread = greatest(known) / least(known);
  return spread > 20 ? logScale(known) : linearScale(known, true);
}

// A percentile's place: how many nines it has.
const nines = (p) => -Math.log10(Math.max(1e-9, 1 - p / 100));

function ninesScale(percentiles) {
  const first = least(percentiles.map(nines));
  const last = Math.max(first + 1, greatest(percentiles.map(nines)));
  return { min: first, max: last, log: true, at: (p) => (nines(p) - first) / (last - first) };
}
