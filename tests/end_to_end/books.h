#pragma once

#include <map>
#include <string>

namespace softmax::testing {

// What calls take of a server and give back when they end, as its /metrics tell it: the gauges of requests, of bytes
// that wait or are unread, of slabs in use and of devices' work, with their values.
using Books = std::map<std::string, std::string>;
// Empty: the server says nothing.
Books BooksOf(const std::string& metrics_address);
// The test fails unless what the server still tells of its books comes to be what it was; some seconds are left to
// connections that have just ended.
void ExpectBooksAsBefore(const Books& before, const std::string& metrics_address);

// The line of /metrics that begins with this, without it; empty: none does.
std::string MetricOf(const std::string& address, const std::string& series);

}  // namespace softmax::testing
