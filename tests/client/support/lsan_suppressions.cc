// Debian's c-ares 1.18 loses the few bytes of the name each time it looks up localhost.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares.so"; }
