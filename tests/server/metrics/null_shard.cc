// Recording that records nothing, linked in the place of server/metrics/shard.cc: what a server without metrics costs.
// Callers still read their clocks and call, so the difference is the price of the counts themselves.
#include "server/metrics/shard.h"

namespace softmax::server {

void Shard::RequestArrived(Method) {}
void Shard::RequestFinished(const RequestSample&) {}
void Shard::RequestRejected(RejectReason) {}
void Shard::BatchFinished(const BatchSample&) {}
void Shard::PayloadCopiedIn(std::uint64_t) {}
void Shard::PayloadCopiedOut(std::uint64_t) {}
void Shard::AddTo(ShardTotals*) const {}

}  // namespace softmax::server
