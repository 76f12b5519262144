// What the questions share: CUPTI and the driver by their names, a kernel to look at, and one line of JSON as answer.
//
// Nothing is linked: how libcupti comes into the process is part of the question, so it is opened as asked.
#pragma once

#include <cuda.h>
#include <cupti.h>
#include <cupti_target.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

// Ends the process with an answer: whether it worked, and what shows it.
[[noreturn]] void answer(bool worked, const std::string &detail);

// The function of that name in libcupti, in the driver, or in a library that was opened; ends the process if absent.
void *cupti_function(const char *name);
void *driver_function(const char *name);
void *function_of(const char *library, const char *name);

// A failure of CUPTI ends the process with the name of the call and CUPTI's own name of the error.
void check_cupti(CUptiResult result, const char *call);
void check_driver(CUresult result, const char *call);

#define CUPTI(call, ...) \
  check_cupti(reinterpret_cast<decltype(&::call)>(cupti_function(#call))(__VA_ARGS__), #call)
// The driver's headers rename functions to a version of theirs; the name is given as exported.
#define DRIVER(type, name, ...) check_driver(reinterpret_cast<decltype(&::type)>(driver_function(name))(__VA_ARGS__), name)

// A parameter block of the profiling calls, its size filled in.
#define PARAMS(type, variable) \
  type variable = {};          \
  variable.structSize = type##_STRUCT_SIZE

// A context on the first device, and a kernel in it.
struct Gpu {
  CUdevice device;
  CUcontext context;
  CUfunction spin;
  CUdeviceptr cells;
  static constexpr unsigned count = 1 << 16;

  Gpu();
  void launch() const;
  std::vector<uint32_t> read() const;
};

// The name by which CUPTI knows the chip: that of the device, or --chip where there is no device.
std::string chip_name();

void ask_activity();
void ask_callback();
void ask_host_profiling();
void ask_range_profiling();
void ask_pm_sampling();
void ask_pc_sampling();
void ask_pc_sampling_files();
void ask_sass_metrics();
void ask_checkpoint();
