"""Medians of paired figures, and how sure they are."""
import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Estimate:
    median: float
    low: float
    high: float
    pairs: int
    coverage: float  # the probability that low..high contains the true median; below 0.95 with fewer than 6 pairs

    @property
    def width(self):
        return self.high - self.low


def interval(values, level=0.95):
    """(low, high, coverage) of the median: the k-th smallest and the k-th largest value, with the largest k that keeps
    the level. Of independent values of any distribution, all n lie on one side of the median with probability 2^-n
    each, and so on with the binomial distribution. With too few values it is their whole range."""
    ordered = sorted(values)
    n = len(ordered)
    best = 1
    coverage = _coverage(n, 1)
    for k in range(2, n // 2 + 1):
        if _coverage(n, k) < level:
            break
        best, coverage = k, _coverage(n, k)
    return ordered[best - 1], ordered[n - best], coverage


def _coverage(n, k):
    """That the median lies between the k-th smallest and the k-th largest of n values."""
    outside = sum(math.comb(n, i) for i in range(k)) / 2**n
    return max(0.0, 1 - 2 * outside)


def estimate(values):
    """None without values."""
    values = [value for value in values if value is not None and not math.isnan(value)]
    if not values:
        return None
    low, high, coverage = interval(values)
    return Estimate(statistics.median(values), low, high, len(values), coverage)


def ratio(pairs):
    """Of pairs (figure, figure it is compared with) that were measured one after the other."""
    return estimate([a / b for a, b in pairs if a is not None and b])


def difference(pairs):
    return estimate([a - b for a, b in pairs if a is not None and b is not None])
