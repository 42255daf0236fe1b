#pragma once

#include "kernels/cuda/blocks/exchange.cuh"
#include "kernels/cuda/blocks/team.cuh"

// How the warps of the block or cluster that runs a unit of large rows tell each other its chunks' statistics.
//
// A cluster's barrier would have every warp wait until all it ever stored is seen by others: 8 % of the time of ragged
// fp32 rows (ncu). So each warp sends its statistics to all blocks, with a barrier in shared memory that counts their
// bytes, and arrives there when it has sent them. There are two barriers and two tables, used in turn: when all warps
// have arrived for a unit, all are done with the tables of the unit before it.
namespace softmax::kernels::cuda {

class BatchExchange {
 public:
  struct Control {
    std::uint64_t barriers[2];
    std::uint32_t tickets[2];
  };

  __device__ __forceinline__ BatchExchange(Team team, Control* control) : team_(team), control_(control) {}

  // By one thread, before the team's blocks meet for the first time.
  __device__ __forceinline__ void Init() const {
#if __CUDA_ARCH__ >= 900
    for (auto& barrier : control_->barriers) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(&barrier)),
                   "r"(team_.blocks * kBlockWarps)
                   : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  // By one thread before its warp arrives: so many chunks' statistics will come, and a ticket from the second turn on.
  template <typename C>
  __device__ __forceinline__ void Expect(int turn, int chunks) const {
#if __CUDA_ARCH__ >= 900
    const int bytes = chunks * static_cast<int>(sizeof(Stats<C>)) + (turn > 0 ? kTicketBytes : 0);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(Barrier(turn)), "r"(bytes)
                 : "memory");
#endif
  }
  // By a whole warp with the same arguments.
  template <typename C>
  __device__ __forceinline__ void Publish(int turn, Stats<C>* slot, const Stats<C>& stats) const {
    if (team_.IsCluster()) {
      ClusterExchange(&control_->barriers[turn & 1]).SendFromWarp(slot, stats, team_.blocks);
    } else if (threadIdx.x % 32 == 0) {
      *slot = stats;
    }
  }
  // By a whole warp, when it has published all that it has.
  __device__ __forceinline__ void Arrive(int turn) const {
#if __CUDA_ARCH__ >= 900
    if (!team_.IsCluster()) return;
    __syncwarp();  // all lanes have read the last unit's table
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane >= team_.blocks) return;
    std::uint32_t barrier;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(Barrier(turn)), "r"(lane));
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
  }
  // Until all warps of the team have arrived.
  __device__ __forceinline__ void Wait(int turn) const {
    __syncthreads();
    if (team_.IsCluster()) WaitForPhase(Barrier(turn), (turn >> 1) & 1);
  }
  // By one thread of the first block, in the middle of a turn that is not the last: what Ticket() gives all blocks in
  // the middle of the next one.
  __device__ __forceinline__ void Tell(int turn, std::uint32_t ticket) const {
    std::uint32_t* const slot = &control_->tickets[turn & 1];
    if (!team_.IsCluster()) {
      *slot = ticket;
      return;
    }
#if __CUDA_ARCH__ >= 900
    for (int member = 0; member < team_.blocks; ++member) {
      std::uint32_t to, barrier;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(SharedAddress(slot)), "r"(member));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(Barrier(turn + 1)), "r"(member));
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to), "r"(ticket),
                   "r"(barrier)
                   : "memory");
    }
#endif
  }
  // The ticket told in the turn before this one, by the thread that told it or that waited.
  __device__ __forceinline__ std::uint32_t Ticket(int turn) const { return control_->tickets[(turn + 1) & 1]; }
  __device__ __forceinline__ void SetFirstTicket(std::uint32_t ticket) const { control_->tickets[1] = ticket; }

 private:
  static constexpr int kTicketBytes = sizeof(std::uint32_t);

  __device__ __forceinline__ std::uint32_t Barrier(int turn) const {
    return SharedAddress(&control_->barriers[turn & 1]);
  }

  Team team_;
  Control* control_;
};

}  // namespace softmax::kernels::cuda
