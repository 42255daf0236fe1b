#pragma once

#include <string>
#include <vector>

namespace softmax::testing {

// One SoftmaxRequest on the wire and what a server with the default limits has to say to it.
struct MalformedCase {
  std::string name;
  std::string bytes;
  int code = 0;          // a google.rpc.Code; 0 when valid
  std::string must_say;  // a part of the status message
  bool valid = false;    // well-formed and within the rules, although no generated serializer writes it so
};

// Over a thousand bad requests, made by rule rather than by chance, and the oddest of the good ones
// between them. Pure: needs neither protobuf nor gRPC. Some messages have tens of megabytes; 110 MB
// in all.
std::vector<MalformedCase> MalformedCases();

// The parts of the above: what protobuf refuses, what the contract refuses.
void AppendBrokenEncodings(std::vector<MalformedCase>* cases);
void AppendBrokenContracts(std::vector<MalformedCase>* cases);

}  // namespace softmax::testing
