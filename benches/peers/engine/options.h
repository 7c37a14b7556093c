// The command line of every program here: a mode, then options with a number.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

struct Options {
  std::string mode;  // a pattern, or `metg`
  uint32_t threads = 2;
  uint32_t tasks = 50'000;
  uint32_t repeats = 5;
  uint32_t width = 2;
  uint32_t steps = 1'000;
  uint64_t iterations = 1;
  bool check = false;
};

[[noreturn]] inline void refuse(std::string_view what) {
  std::fprintf(stderr, "error: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(2);
}

inline Options parse(int argc, char** argv) {
  Options options;
  if (argc < 2) refuse("a pattern or `metg` is missing");
  options.mode = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--check") {
      options.check = true;
      continue;
    }
    char* end = nullptr;
    const uint64_t value = i + 1 < argc ? std::strtoull(argv[++i], &end, 10) : 0;
    if (value == 0 || *end != '\0') refuse(std::string(name) + " needs a positive number");
    if (name == "--threads") options.threads = value;
    else if (name == "--tasks") options.tasks = value;
    else if (name == "--repeats") options.repeats = value;
    else if (name == "--width") options.width = value;
    else if (name == "--steps") options.steps = value;
    else if (name == "--iterations") options.iterations = value;
    else refuse("unknown option: " + std::string(name));
  }
  return options;
}
