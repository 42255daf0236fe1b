// Has only headers: cmake/SoftmaxTest.cmake.
int main() {}
