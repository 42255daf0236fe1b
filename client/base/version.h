#pragma once

// Of the client's programs: in a file of its own, for it changes with every commit.
namespace softmax::client {

const char* Version();
const char* Commit();  // "unknown" outside of a checkout

}  // namespace softmax::client
