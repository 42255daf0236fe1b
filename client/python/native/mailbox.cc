#include "client/python/native/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include "client/python/native/errors.h"

namespace softmax::python {

py::object Pending::Result() {
  if (!answer.ok()) return ExceptionOf(answer.status());
  try {
    if (summary_axis) return SummaryOf(*answer, *summary_axis);
    if (!output) return ArrayOf(*std::move(answer));
  } catch (py::error_already_set& error) {
    return error.value();
  } catch (const py::type_error& error) {
    return py::reinterpret_borrow<py::object>(PyExc_TypeError)(error.what());
  }
  const auto data = answer->data();
  if (data.data() != output->writable().data()) std::memcpy(output->writable().data(), data.data(), data.size());
  return out;
}

Mailbox::Mailbox() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Mailbox::~Mailbox() { close(fd_); }

void Mailbox::Put(std::unique_ptr<Pending> answered) {
  const std::lock_guard lock(mu_);
  if (answered_.empty()) eventfd_write(fd_, 1);
  answered_.push_back(std::move(answered));
  arrived_.notify_one();
}

std::vector<std::unique_ptr<Pending>> Mailbox::Take(std::size_t limit, std::chrono::nanoseconds patience) {
  std::unique_lock lock(mu_);
  arrived_.wait_for(lock, patience, [this] { return !answered_.empty(); });
  const std::size_t count = std::min(limit, answered_.size());
  const auto end = answered_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<std::unique_ptr<Pending>> taken(std::make_move_iterator(answered_.begin()), std::make_move_iterator(end));
  answered_.erase(answered_.begin(), end);
  if (count > 0 && answered_.empty()) {
    eventfd_t unused = 0;
    eventfd_read(fd_, &unused);
  }
  return taken;
}

}  // namespace softmax::python
