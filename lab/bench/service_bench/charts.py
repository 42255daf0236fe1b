"""Line charts as SVG text, for a page that needs no network."""
import html
import math

WIDTH, HEIGHT = 620, 320
LEFT, RIGHT, TOP, BOTTOM = 68, 150, 34, 44
COLOURS = ["#7a7a7a", "#b08a00", "#2a9d5c", "#1f6fd6", "#c2452d", "#8a4fbf", "#008b9a", "#d0719a"]


class _Axis:
    """`base` 2 or 10: a logarithmic axis; 0: a linear one."""

    def __init__(self, values, begin, end, base, from_zero):
        self._begin, self._end, self._base = begin, end, base
        low, high = min(values), max(values)
        if base:
            low, high = math.log(low, base), math.log(high, base)
        elif from_zero:
            low = min(0, low)
        self._low, self._high = low, high if high > low else low + 1

    def at(self, value):
        value = math.log(value, self._base) if self._base else value
        return self._begin + (value - self._low) / (self._high - self._low) * (self._end - self._begin)

    def ticks(self):
        if self._base == 2:
            step = max(1, round((self._high - self._low) / 6))
            return [2.0**power for power in range(math.ceil(self._low - 1e-9), math.floor(self._high + 1e-9) + 1, step)]
        if self._base == 10:
            factors = (1,) if self._high - self._low > 3 else (1, 2, 5)
            ticks = [factor * 10.0**power for power in range(math.floor(self._low), math.ceil(self._high) + 1)
                     for factor in factors]
            return [tick for tick in ticks if self._low <= math.log10(tick) <= self._high]
        span = self._high - self._low
        step = 10 ** math.floor(math.log10(span / 4))
        step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
        first = math.ceil(self._low / step)
        return [step * i for i in range(first, math.floor(self._high / step) + 1)]


def si(value):
    for unit, text in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{text}"
    return f"{value:g}"


def line_chart(title, x_label, y_label, series, log_x=False, log_y=False, x_text=si, reference=None):
    """`series`: {name: [(x, y)] or [(x, y, low, high)]}; points without a y are left out. `reference`: a horizontal
    line. Empty text without points."""
    series = {name: sorted(p for p in points if p[1] is not None and not (log_y and p[1] <= 0))
              for name, points in series.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    xs = [p[0] for points in series.values() for p in points]
    ys = [y for points in series.values() for p in points for y in p[1:]] + ([reference] if reference else [])
    x_axis = _Axis(xs, LEFT, WIDTH - RIGHT, 2 if log_x else 0, False)
    y_axis = _Axis(ys, HEIGHT - BOTTOM, TOP, 10 if log_y else 0, True)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">',
             f'<text x="{LEFT}" y="18" class="title">{html.escape(title)}</text>']
    parts += _grid(x_axis, y_axis, x_text, x_label, y_label)
    if reference:
        y = y_axis.at(reference)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="reference"/>')
    for number, (name, points) in enumerate(series.items()):
        parts += _line(number, name, points, x_axis, y_axis)
    return "\n".join(parts + ["</svg>"])


def _grid(x_axis, y_axis, x_text, x_label, y_label):
    parts = []
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{html.escape(si(tick))}</text>')
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
                     f'{html.escape(x_text(tick))}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(x_label)}</text>')
    parts.append(f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
                 f'{html.escape(y_label)}</text>')
    return parts


def _line(number, name, points, x_axis, y_axis):
    colour = COLOURS[number % len(COLOURS)]
    path = " ".join(f"{x_axis.at(p[0]):.1f},{y_axis.at(p[1]):.1f}" for p in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
    for p in points:
        x, y = x_axis.at(p[0]), y_axis.at(p[1])
        if len(p) == 4:
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y_axis.at(p[2]):.1f}" y2="{y_axis.at(p[3]):.1f}" '
                         f'stroke="{colour}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{html.escape(name)}: '
                     f'{p[1]:.6g}</title></circle>')
    y = TOP + 14 * (number + 1)
    x = WIDTH - RIGHT + 12
    parts.append(f'<rect x="{x}" y="{y - 8}" width="10" height="10" fill="{colour}"/>'
                 f'<text x="{x + 15}" y="{y + 1}">{html.escape(name)}</text>')
    return parts
