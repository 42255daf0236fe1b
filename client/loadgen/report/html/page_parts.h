#pragma once

#include <string>

// The files of page/, built into the program.
namespace softmax::client::page {

std::string Skeleton();  // page.html, with @TITLE@, @STYLE@, @RESULTS@ and @SCRIPT@ to fill in
std::string Style();
std::string Script();

}  // namespace softmax::client::page
