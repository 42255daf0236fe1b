// html_report_render RESULTS.json PAGE.html: what softmax-loadgen writes for its results, for the tests in a browser.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "client/loadgen/report/html/html_report.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: html_report_render RESULTS.json PAGE.html\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string results{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::ofstream out(argv[2], std::ios::binary);
  out << softmax::client::HtmlReport(results);
  return out.flush() ? 0 : 1;
}
