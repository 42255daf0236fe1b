#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace softmax::client {

// One line of Prometheus' text format 0.0.4.
struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  // in the order of the text, unescaped
  double value = 0;                                         // may be NaN or infinite

  // Empty when there is no such label.
  std::string_view Label(std::string_view label) const;
};

// The samples of a scrape; comments and timestamps are passed over. INVALID_ARGUMENT names the line and the form that
// it lacks: like Prometheus itself, a scrape with one bad line is refused whole. RESOURCE_EXHAUSTED beyond 200,000
// samples.
absl::StatusOr<std::vector<MetricSample>> ParseMetrics(std::string_view text);

// A histogram's observations within the window.
struct WindowHistogram {
  struct Bucket {
    double above = 0;  // lower bound, exclusive
    double le = 0;     // upper bound, inclusive; +inf for the last
    double n = 0;
  };
  std::vector<Bucket> buckets;  // ascending; without the empty ones at either end
  double count = 0;
  std::optional<double> sum;

  std::optional<double> Mean() const;
  // By linear interpolation within the bucket, as Prometheus' histogram_quantile does; in the last bucket its lower
  // bound. Never above mean / (1 - q), which no quantile can be: that tells nearly nothing from half of the first
  // bucket. With `whole`, values are whole numbers: (4, 8] holds 5 to 8. Nothing without observations.
  std::optional<double> Quantile(double q, bool whole) const;
};

// Tells the samples of several servers apart; samples without it are one server's.
inline constexpr char kServerLabel[] = "server_address";

// The difference of two scrapes of one server, or of several together. Borrows both. One thread.
//
// A counter that fell, or a later start of the process, means that it began again from zero within the window: then
// what it counted since is all that is known.
class MetricsWindow {
 public:
  using Filter = std::function<bool(const MetricSample&)>;

  MetricsWindow(const std::vector<MetricSample>& before, const std::vector<MetricSample>& after);

  // Summed over all samples of that name that pass; nothing when there are none.
  std::optional<double> Counter(std::string_view name, const Filter& filter = {}) const;
  // By a label's value; values that stayed at zero are left out.
  std::map<std::string, double> CountersBy(std::string_view name, std::string_view label,
                                           const Filter& filter = {}) const;
  // Without the suffixes _bucket and _sum. Buckets of several label sets are added up.
  WindowHistogram Histogram(const std::string& name, const Filter& filter = {}) const;
  // As it stood at the end, summed over the servers.
  std::optional<double> Gauge(std::string_view name) const;
  // A sample's growth.
  double Growth(const MetricSample& sample) const;

  // The servers that began again, by kServerLabel.
  const std::set<std::string, std::less<>>& restarted() const { return restarted_; }

 private:
  static std::string KeyOf(const MetricSample& sample);

  const std::vector<MetricSample>& after_;
  std::map<std::string, double> before_;
  std::set<std::string, std::less<>> restarted_;
};

}  // namespace softmax::client
