#include "kernels/cuda/registry.h"

#include <array>
#include <vector>

namespace softmax::kernels::cuda {

// Each has one source, which the build compiles for every type of input (core/instance.h).
#define SOFTMAX_UNITS_OF(type)                        \
  const std::vector<Kernel>& type##SmallRowKernels(); \
  const std::vector<Kernel>& type##LargeRowKernels(); \
  const std::vector<Kernel>& type##ColumnKernels();   \
  const std::vector<Kernel>& type##BatchKernels();    \
  const std::vector<Kernel>& type##GeneralKernels();  \
  const std::vector<Kernel>& type##SummaryKernels();
SOFTMAX_UNITS_OF(Float32)
SOFTMAX_UNITS_OF(Float16)
SOFTMAX_UNITS_OF(BFloat16)
SOFTMAX_UNITS_OF(Float64)
#undef SOFTMAX_UNITS_OF

namespace {

// One type's kernels, and where each of them is found at once.
class Registry {
 public:
  explicit Registry(std::initializer_list<const std::vector<Kernel>*> units) {
    for (const std::vector<Kernel>* unit : units) {
      for (const Kernel& kernel : *unit) {
        all_.push_back(kernel);
        for (int form = 0; form < kForms; ++form) {
          if ((form & ~kernel.any) == kernel.form) places_[Place(kernel.room, kernel.size, form)] = kernel.address;
        }
      }
    }
  }

  const void* Find(Room room, int size, int form) const { return places_[Place(room, size, form)]; }
  const std::vector<Kernel>& all() const { return all_; }

 private:
  static std::size_t Place(Room room, int size, int form) {
    return static_cast<std::size_t>((static_cast<int>(room) * kRoomSizes + size) * kForms + form);
  }

  std::vector<Kernel> all_;
  std::array<const void*, kRooms* kRoomSizes* kForms> places_ = {};
};

const Registry& RegistryOf(DataType type) {
#define SOFTMAX_REGISTRY(type)                                                                                  \
  {                                                                                                             \
    static const Registry registry({&type##SmallRowKernels(), &type##LargeRowKernels(), &type##ColumnKernels(), \
                                    &type##BatchKernels(), &type##GeneralKernels(), &type##SummaryKernels()});  \
    return registry;                                                                                            \
  }
  switch (type) {
    case DataType::kFloat16:
      SOFTMAX_REGISTRY(Float16)
    case DataType::kBFloat16:
      SOFTMAX_REGISTRY(BFloat16)
    case DataType::kFloat64:
      SOFTMAX_REGISTRY(Float64)
    case DataType::kFloat32:
      break;
  }
  SOFTMAX_REGISTRY(Float32)
#undef SOFTMAX_REGISTRY
}

}  // namespace

const void* KernelOf(DataType type, Room room, int size, int form) { return RegistryOf(type).Find(room, size, form); }

const std::vector<Kernel>& KernelsOf(DataType type) { return RegistryOf(type).all(); }

}  // namespace softmax::kernels::cuda
