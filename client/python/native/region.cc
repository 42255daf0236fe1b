#include "client/python/native/region.h"

#include <dlpack/dlpack.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <span>
#include <utility>

#include "client/python/native/errors.h"
#include "client/python/native/running.h"

namespace softmax::python {
namespace {

constexpr char kFresh[] = "dltensor";

// What a DLPack tensor refers to.
struct Lent {
  std::shared_ptr<client::Region> region;
  std::vector<std::int64_t> shape;
  DLManagedTensor managed = {};
};

void EndLent(DLManagedTensor* managed) { delete static_cast<Lent*>(managed->manager_ctx); }

// Of a capsule that nobody took the tensor out of.
void EndCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kFresh) == 0) return;
  EndLent(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh)));
}

}  // namespace

py::buffer_info Region::Buffer() const {
  const bool host = region_->memory() == client::Memory::kHost;
  const auto size = static_cast<py::ssize_t>(host ? region_->size() : 0);
  return {host ? region_->data() : nullptr, 1, "B", 1, {size}, {1}};
}

py::capsule Region::Dlpack(const std::vector<std::int64_t>& shape, std::uint8_t code, std::uint8_t bits) const {
  auto lent = std::make_unique<Lent>(Lent{region_, shape});
  DLTensor& tensor = lent->managed.dl_tensor;
  tensor.data = region_->data();
  tensor.device = {kDLCUDA, region_->cuda_device()};
  tensor.ndim = static_cast<int>(shape.size());
  tensor.dtype = {code, bits, 1};
  tensor.shape = lent->shape.data();
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = &EndLent;
  PyObject* const capsule = PyCapsule_New(&lent->managed, kFresh, &EndCapsule);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(lent.release());
  return py::reinterpret_steal<py::capsule>(capsule);
}

void Region::Write(const py::buffer& from) const {
  const py::buffer_info info = from.request();
  const std::span bytes(static_cast<const std::byte*>(info.ptr), static_cast<std::size_t>(info.size * info.itemsize));
  absl::Status status;
  {
    const Unlocked unlocked;
    status = region_->Write(0, bytes);
  }
  if (!status.ok()) Raise(status);
}

void Region::Read(const py::buffer& to) const {
  const py::buffer_info info = to.request(/*writable=*/true);
  const std::span bytes(static_cast<std::byte*>(info.ptr), static_cast<std::size_t>(info.size * info.itemsize));
  absl::Status status;
  {
    const Unlocked unlocked;
    status = region_->Read(0, bytes);
  }
  if (!status.ok()) Raise(status);
}

void BindRegion(py::module_& module) {
  py::class_<Region>(module, "Region", py::buffer_protocol())
      .def_buffer([](Region& region) { return region.Buffer(); })
      .def_property_readonly("address", &Region::address)
      .def_property_readonly("cuda_device", &Region::cuda_device)
      .def("dlpack", &Region::Dlpack)
      .def("write", &Region::Write)
      .def("read", &Region::Read);
}

}  // namespace softmax::python
