// Recording that records nothing, linked in the place of server/metrics/thread_counters.cc: what a server without
// metrics costs. Callers still read their clocks and call, so the difference is the price of the counts themselves.
#include "server/metrics/thread_counters.h"

namespace softmax::server {

void ThreadCounters::RequestArrived(Method) {}
void ThreadCounters::RequestFinished(const RequestSample&) {}
void ThreadCounters::RequestRefused(RefuseReason) {}
void ThreadCounters::BatchFinished(const BatchSample&) {}
void ThreadCounters::PayloadCopiedIn(std::uint64_t) {}
void ThreadCounters::PayloadCopiedOut(std::uint64_t) {}
void ThreadCounters::SlowRequest(const RequestSample&, std::string_view) {}
void ThreadCounters::CameLate(Nanoseconds) {}
void ThreadCounters::AddTo(CounterTotals*) const {}
void ThreadCounters::AddTo(std::vector<Exemplar>*) const {}

}  // namespace softmax::server
