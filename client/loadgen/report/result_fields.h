#pragma once

#include <functional>
#include <tuple>
#include <utility>

#include "client/loadgen/experiment.h"
#include "client/loadgen/measure/machine.h"
#include "client/loadgen/measure/run_result.h"

// The figures of a report by their names in its document, in its order: what is written and read back goes by these
// lists alone.
namespace softmax::client {

// `place`: a member, or what leads to one of a struct inside; a function whose value is computed is written only.
template <typename Place>
struct Field {
  const char* name;
  Place place;
};
template <typename Place>
Field(const char*, Place) -> Field<Place>;  // which clang 14 asks for

template <typename Struct, typename Visit>
void EachField(Struct& of, const Visit& visit) {
  const auto visit_all = [&](const auto&... field) { (visit(field.name, std::invoke(field.place, of)), ...); };
  std::apply(visit_all, FieldsOf(std::as_const(of)));
}

inline auto FieldsOf(const MachineName&) {
  return std::tuple{Field{"host", &MachineName::host}, Field{"processor", &MachineName::processor},
                    Field{"cores", &MachineName::cores}, Field{"system", &MachineName::system}};
}

inline auto FieldsOf(const HistogramBucket&) {
  return std::tuple{Field{"ns", &HistogramBucket::ns}, Field{"n", &HistogramBucket::n}};
}

inline auto FieldsOf(const LatencyFigures&) {
  return std::tuple{Field{"count", &LatencyFigures::count},       Field{"mean_us", &LatencyFigures::mean_us},
                    Field{"min_us", &LatencyFigures::min_us},     Field{"max_us", &LatencyFigures::max_us},
                    Field{"percentiles", &LatencyFigures::at_us}, Field{"histogram", &LatencyFigures::histogram}};
}

inline auto FieldsOf(const ClassFigures&) {
  return std::tuple{Field{"name", &ClassFigures::name}, Field{"achieved_per_s", &ClassFigures::per_second},
                    Field{"gb_per_s", &ClassFigures::gigabytes_per_second}, Field{"latency", &ClassFigures::latency}};
}

inline auto FieldsOf(const AddressFigures&) {
  return std::tuple{Field{"address", &AddressFigures::address}, Field{"attempts", &AddressFigures::attempts},
                    Field{"answered", &AddressFigures::answered}, Field{"failed", &AddressFigures::failed}};
}

inline auto FieldsOf(const TimelinePoint&) {
  return std::tuple{Field{"t_s", &TimelinePoint::t_s},           Field{"sent", &TimelinePoint::sent},
                    Field{"answered", &TimelinePoint::answered}, Field{"errors", &TimelinePoint::errors},
                    Field{"p50_us", &TimelinePoint::p50_us},     Field{"p99_us", &TimelinePoint::p99_us}};
}

inline auto FieldsOf(const GeneratorFigures&) {
  return std::tuple{Field{"cpu_cores", &GeneratorFigures::cpu_cores},
                    Field{"busiest_thread", &GeneratorFigures::busiest_thread},
                    Field{"limited", &GeneratorFigures::limited}, Field{"why", &GeneratorFigures::why}};
}

inline auto FieldsOf(const GeneratorPart&) {
  return std::tuple{Field{"file", &GeneratorPart::file}, Field{"lacks", &GeneratorPart::lacks},
                    Field{"machine", &GeneratorPart::machine}, Field{"run", &GeneratorPart::run}};
}

inline auto FieldsOf(const SearchStep&) {
  return std::tuple{Field{"rate_per_s", &SearchStep::rate_per_s}, Field{"kept", &SearchStep::kept},
                    Field{"generator_limited", &SearchStep::generator_limited}};
}

inline auto FieldsOf(const SearchResult&) {
  return std::tuple{Field{"rate_per_s", &SearchResult::rate_per_s},
                    Field{"at_upper_bound", &SearchResult::at_upper_bound},
                    Field{"generator_limited", &SearchResult::generator_limited},
                    Field{"stopped", &SearchResult::stopped}, Field{"steps", &SearchResult::steps}};
}

inline auto FieldsOf(const RunResult&) {
  return std::tuple{Field{"name", &RunResult::name},
                    Field{"loop", [](auto& run) -> decltype(auto) { return (run.load.loop); }},
                    Field{"connections", &RunResult::connections},
                    Field{"in_flight", &RunResult::in_flight},
                    Field{"offered_per_s", &RunResult::offered_per_s},
                    Field{"achieved_per_s", &RunResult::achieved_per_s},
                    Field{"goodput_per_s", &RunResult::goodput_per_s},
                    Field{"gb_per_s", &RunResult::gigabytes_per_s},
                    Field{"duration_s", &RunResult::seconds},
                    Field{"warmup_s", &RunResult::warmup_seconds},
                    Field{"part", &RunResult::part},
                    Field{"parts", &RunResult::parts},
                    Field{"began_s", &RunResult::began_s},
                    Field{"clock_ms", &RunResult::clock_ms},
                    Field{"slo_us", [](auto& run) -> decltype(auto) { return (run.load.slo.limit); }},
                    Field{"within_slo", &RunResult::within_slo},
                    Field{"latency", &RunResult::latency},
                    Field{"service_time", &RunResult::service},
                    Field{"lag", &RunResult::lag},
                    Field{"classes", &RunResult::classes},
                    Field{"errors", &RunResult::errors},
                    Field{"warmup_errors", &RunResult::warmup_errors},
                    Field{"first_error", &RunResult::first_error},
                    Field{"sent", &RunResult::sent},
                    Field{"attempts", &RunResult::attempts},
                    Field{"retries", &RunResult::retries},
                    Field{"retried", &RunResult::retried},
                    Field{"throttled", &RunResult::throttled},
                    Field{"addresses", &RunResult::addresses},
                    Field{"dropped", &RunResult::dropped},
                    Field{"dropped_full", &RunResult::dropped_full},
                    Field{"dropped_behind", &RunResult::dropped_behind},
                    Field{"late", &RunResult::late},
                    Field{"wrong", &RunResult::wrong},
                    Field{"first_wrong", &RunResult::first_wrong},
                    Field{"verified", &RunResult::verified},
                    Field{"judged", &RunResult::judged},
                    Field{"timeline", &RunResult::timeline},
                    Field{"generator", &RunResult::generator},
                    Field{"server_cores", &RunResult::server_cores},
                    Field{"machine_busy", &RunResult::machine_busy},
                    Field{"server", &RunResult::server},
                    Field{"servers", &RunResult::servers},
                    Field{"interrupted", &RunResult::interrupted},
                    Field{"complete", &RunResult::complete},
                    Field{"verdicts", &RunResult::verdicts},
                    Field{"generators", &RunResult::generators}};
}

}  // namespace softmax::client
