// Memory that a launch is given: never allocated, known by its address alone.
#pragma once
#include <initializer_list>
void *given(const char *name, const char *dtype, std::initializer_list<long> shape, const char *values = "");
template <typename T> T *tensor(const char *name, const char *dtype, std::initializer_list<long> shape, const char *values = "") {
  return static_cast<T *>(given(name, dtype, shape, values));
}
void label(const char *name);
