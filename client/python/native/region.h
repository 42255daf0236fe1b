#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "client/softmax_client/region.h"

namespace softmax::python {

namespace py = pybind11;

// A client::Region for Python: of host memory with the buffer protocol, of device memory with DLPack's capsules. Held
// by every array over it.
class Region {
 public:
  explicit Region(client::Region region) : region_(std::make_shared<client::Region>(std::move(region))) {}

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(region_->data()); }
  int cuda_device() const { return region_->cuda_device(); }
  py::buffer_info Buffer() const;  // of a device: no bytes
  // A tensor from its first byte on. `code` and `bits` are DLPack's, of its element type.
  py::capsule Dlpack(const std::vector<std::int64_t>& shape, std::uint8_t code, std::uint8_t bits) const;
  // From and to any buffer, from the region's first byte on; without the GIL.
  void Write(const py::buffer& from) const;
  void Read(const py::buffer& to) const;

 private:
  std::shared_ptr<client::Region> region_;
};

void BindRegion(py::module_& module);

}  // namespace softmax::python
