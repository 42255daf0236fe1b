// Linked into every test program: ::testing::TempDir() is a folder of this process alone. Parts of a program, or
// programs of two checkouts, that run side by side do not take each other's files and sockets. It goes with the
// process.
#include <cstdlib>

#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

struct OwnTempDir {
  OwnTempDir() { setenv("TEST_TMPDIR", folder.path("").c_str(), 1); }
  const TempFolder folder;
};

const OwnTempDir own_temp_dir;

}  // namespace
}  // namespace softmax::testing
