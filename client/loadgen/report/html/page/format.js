// Numbers as people read them. Every function takes what JSON gave, null and missing included, and answers a dash for
// what is not a number.
const NONE = "–";

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
const numberOr = (x, other) => (isNumber(x) ? x : other);

// The objects of a list; none of what is no list.
const listOf = (value) => (Array.isArray(value) ? value : []).filter((one) => one && typeof one === "object");

// Of many values, more than a call can have arguments; what is not a number does not count. Undefined without any.
const least = (values) => values.reduce((a, b) => (isNumber(b) && !(b >= a) ? b : a), undefined);
const greatest = (values) => values.reduce((a, b) => (isNumber(b) && !(b <= a) ? b : a), undefined);

function grouped(x, digits = 0) {
  if (!isNumber(x)) return NONE;
  return x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// Three significant digits, never fewer than all whole ones.
function threeDigits(x) {
  const size = Math.abs(x);
  return grouped(x, size === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

const LATENCY_UNITS = [{ name: "µs", us: 1 }, { name: "ms", us: 1e3 }, { name: "s", us: 1e6 }];

function latencyUnit(us) {
  const size = Math.abs(us);
  return LATENCY_UNITS[size < 999.5 ? 0 : size < 999500 ? 1 : 2];
}

// {value, unit} of a latency that stands alone.
function latencyParts(us) {
  if (!isNumber(us)) return { value: NONE, unit: "" };
  const unit = latencyUnit(us);
  return { value: threeDigits(us / unit.us), unit: unit.name };
}

function latency(us) {
  const { value, unit } = latencyParts(us);
  return unit ? `${value} ${unit}` : value;
}

// The unit for a whole table, so that its columns can be compared: by its largest value.
function commonUnit(values) {
  const largest = greatest([0, ...values]);
  return LATENCY_UNITS[largest < 1e4 ? 0 : largest < 1e7 ? 1 : 2];
}

function inUnit(us, unit) {
  if (!isNumber(us)) return NONE;
  return grouped(us / unit.us, unit.us === 1 ? 1 : 3);
}

// An axis' number: no zeros behind the point that say nothing.
function plain(x) {
  if (!isNumber(x)) return NONE;
  return Number(x.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

function latencyTick(us) {
  if (us === 0) return "0";
  const unit = latencyUnit(us);
  return `${plain(us / unit.us)} ${unit.name}`;
}

const rate = (x) => (isNumber(x) ? threeDigits(x) : NONE);
const perSecond = (x) => (isNumber(x) ? `${rate(x)}/s` : NONE);
const count = (x) => grouped(x);
const seconds = (x) => (isNumber(x) ? `${plain(Number(x.toFixed(3)))} s` : NONE);

function percent(part, whole) {
  if (!isNumber(part) || !isNumber(whole) || whole <= 0) return NONE;
  const share = (100 * part) / whole;
  if (share === 0 || share === 100) return `${share} %`;
  if (share < 0.01) return "< 0.01 %";
  if (share > 99.99 && share < 100) return "> 99.99 %";
  return `${grouped(share, share < 1 ? 2 : share < 99 ? 1 : 2)} %`;
}

function bytes(x) {
  if (!isNumber(x)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = x;
  let i = 0;
  for (; value >= 1024 && i + 1 < units.length; ++i) value /= 1024;
  return `${i === 0 ? plain(value) : threeDigits(value).replace(/\.0+$/, "")} ${units[i]}`;
}

function throughput(bytesPerSecond) {
  if (!isNumber(bytesPerSecond)) return NONE;
  const giga = bytesPerSecond >= 1e8;
  return `${threeDigits(bytesPerSecond / (giga ? 1e9 : 1e6))} ${giga ? "GB/s" : "MB/s"}`;
}

const percentileName = (p) => (isNumber(p) ? `p${plain(p)}` : NONE);
const sum = (values) => values.reduce((total, x) => total + numberOr(x, 0), 0);
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
