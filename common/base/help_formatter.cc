#include "common/base/help_formatter.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace softmax {
namespace {

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::string newer = " [" + option->get_default_str() + "] ";
    if (const std::size_t at = text.find(newer); at != std::string::npos) {
      text.replace(at, newer.size(), "=" + option->get_default_str());
    }
    return text;
  }
};

}  // namespace

void ShowDefaultsAsOurs(CLI::App* app) { app->formatter(std::make_shared<HelpFormatter>()); }

}  // namespace softmax
