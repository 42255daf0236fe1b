#pragma once

#include <cstdint>
#include <string>

namespace softmax::testing {

// A client that speaks just enough HTTP/2 to misbehave: it can stop in the middle of a message, reset a stream, and
// leave its answer unread. Blocking sockets, one at a time.
class Http2Client {
 public:
  // `window`: the initial window it grants for answers (0: none may be sent). Plain TCP to 127.0.0.1:port.
  Http2Client(const std::string& target, std::uint32_t window);
  // Says `greeting` instead of HTTP/2's, and nothing more by itself.
  Http2Client(const std::string& target, const std::string& greeting);
  ~Http2Client();
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  bool connected() const { return fd_ >= 0; }
  // Opens a call, to the unary method unless it is said (of another service: its whole path); returns its stream's
  // number. `encoding`: for grpc-encoding.
  std::uint32_t StartCall(const std::string& method = "Softmax", const std::string& encoding = "");
  // Sends bytes of the last call's body (the 5-byte gRPC frame head is the caller's), as far as the server's windows
  // allow; waits for more up to two seconds.
  bool SendBody(std::uint32_t stream, const std::string& bytes, bool end);
  void Reset(std::uint32_t stream);
  bool SendRaw(const std::string& bytes);
  // Reads and drops whatever arrives for so long.
  void ReadFor(int milliseconds);
  // Reads until a call ends: the digits of grpc-status, and the grpc-message as far as it came. Empty: none ended in
  // ten seconds.
  std::string ReadStatus();
  // Reads and drops at most `most` bytes, as far as they have arrived; how many.
  std::size_t Read(std::size_t most);
  // Whether the server ends the connection within that time; drops what it says.
  bool ClosedWithin(int milliseconds);

 private:
  void Connect(const std::string& target);
  void Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, const std::string& body);
  // Takes one frame from the server: what it grants, and its pings. False: none came in time, or the connection ended.
  bool TakeFrame(int timeout_ms);
  bool ReadExactly(std::string* bytes, int timeout_ms);

  int fd_ = -1;
  std::uint32_t next_stream_ = 1;
  // What the server lets us send, on the connection and on the last stream.
  std::int64_t connection_window_ = 65535;
  std::int64_t stream_window_ = 65535;
  std::int64_t initial_window_ = 65535;
};

// The gRPC frame head for a message of this size, then the message.
std::string GrpcFrame(const std::string& message);

}  // namespace softmax::testing
