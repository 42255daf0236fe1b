#pragma once

#include <string>
#include <string_view>

// What softmax-client and softmax-loadgen are as programs.
namespace softmax::client {

const char* Version();
const char* Commit();  // "unknown" outside of a checkout

// Text of strangers (a file, a server) for one line of a terminal or a log: what is no plain text is escaped.
std::string Visible(std::string_view text);

// One line on standard error, visible and of bounded length (common/base/safe_text.h), behind the program's name.
void Say(std::string_view message);

// At the begin of main: OpenSSL keeps what it has until the process is gone. By itself it frees its locks in exit,
// where a thread of gRPC may still be in a handshake, and crashes.
void KeepOpenSsl();

}  // namespace softmax::client
