// Asks one CUPTI API for its work, once, and prints what came of it as a line of JSON.
//
//   apis API [--cupti NAME] [--chip CHIP]
//
// NAME is what is given to dlopen: a soname, for the loader to search, or a path. CHIP stands in for a device where
// only the host half of an API is asked. Exit: 0 it worked, 1 it did not, 2 it was asked wrongly.
#include "gpu.hpp"

#include <cstdio>
#include <cstring>
#include <map>

namespace {

std::string asked;
std::string cupti_name = "libcupti.so.12";
std::string chip;
void *cupti = nullptr;

const std::map<std::string, void (*)()> questions = {
    {"activity", ask_activity},
    {"callback", ask_callback},
    {"host-profiling", ask_host_profiling},
    {"range-profiling", ask_range_profiling},
    {"pm-sampling", ask_pm_sampling},
    {"pc-sampling", ask_pc_sampling},
    {"pc-sampling-files", ask_pc_sampling_files},
    {"sass-metrics", ask_sass_metrics},
    {"checkpoint", ask_checkpoint},
};

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\' || c < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

void *open_or_answer(const char *library, int mode) {
  void *handle = dlopen(library, mode);
  if (!handle) answer(false, dlerror());
  return handle;
}

// Twenty rounds of the grid over the cells: long enough to be sampled, short enough to be repeated.
const char ptx[] = R"(.version 6.4
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 cells) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [cells];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %d2, %r4, 4;
  add.s64 %d3, %d1, %d2;
  mov.u32 %r5, 0;
again:
  ld.volatile.global.u32 %r6, [%d3];
  add.u32 %r6, %r6, 1;
  st.volatile.global.u32 [%d3], %r6;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p, %r5, 2000;
  @%p bra again;
  ret;
}
)";

}  // namespace

void answer(bool worked, const std::string &detail) {
  std::printf("{\"api\": %s, \"worked\": %s, \"detail\": %s}\n", quoted(asked).c_str(), worked ? "true" : "false",
              quoted(detail).c_str());
  std::fflush(stdout);
  std::_Exit(worked ? 0 : 1);
}

void *function_of(const char *library, const char *name) {
  void *function = dlsym(open_or_answer(library, RTLD_NOW), name);
  if (!function) answer(false, std::string(library) + " does not export " + name);
  return function;
}

void *cupti_function(const char *name) {
  if (!cupti) cupti = open_or_answer(cupti_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  void *function = dlsym(cupti, name);
  if (!function) answer(false, std::string("this libcupti does not export ") + name);
  return function;
}

void *driver_function(const char *name) { return function_of("libcuda.so.1", name); }

void check_cupti(CUptiResult result, const char *call) {
  if (result == CUPTI_SUCCESS) return;
  const char *name = nullptr;
  reinterpret_cast<decltype(&::cuptiGetResultString)>(cupti_function("cuptiGetResultString"))(result, &name);
  answer(false, std::string(call) + ": " + (name ? name : "an unknown error") + " (" + std::to_string(result) + ")");
}

void check_driver(CUresult result, const char *call) {
  if (result != CUDA_SUCCESS) answer(false, std::string(call) + ": error " + std::to_string(result) + " of the driver");
}

Gpu::Gpu() {
  CUmodule module;
  DRIVER(cuInit, "cuInit", 0);
  DRIVER(cuDeviceGet, "cuDeviceGet", &device, 0);
  DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", &context, device);
  DRIVER(cuCtxSetCurrent, "cuCtxSetCurrent", context);
  DRIVER(cuModuleLoadData, "cuModuleLoadData", &module, ptx);
  DRIVER(cuModuleGetFunction, "cuModuleGetFunction", &spin, module, "spin");
  DRIVER(cuMemAlloc, "cuMemAlloc_v2", &cells, count * sizeof(uint32_t));
  DRIVER(cuMemsetD32, "cuMemsetD32_v2", cells, 0, count);
}

void Gpu::launch() const {
  CUdeviceptr argument = cells;
  void *arguments[] = {&argument};
  DRIVER(cuLaunchKernel, "cuLaunchKernel", spin, count / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
  DRIVER(cuCtxSynchronize, "cuCtxSynchronize");
}

std::vector<uint32_t> Gpu::read() const {
  std::vector<uint32_t> values(count);
  DRIVER(cuMemcpyDtoH, "cuMemcpyDtoH_v2", values.data(), cells, count * sizeof(uint32_t));
  return values;
}

std::string chip_name() {
  if (!chip.empty()) return chip;
  PARAMS(CUpti_Device_GetChipName_Params, params);
  params.deviceIndex = 0;
  CUPTI(cuptiDeviceGetChipName, &params);
  return params.pChipName;
}

int main(int argc, char **argv) {
  for (int at = 2; at + 1 < argc; at += 2) {
    if (!std::strcmp(argv[at], "--cupti")) cupti_name = argv[at + 1];
    if (!std::strcmp(argv[at], "--chip")) chip = argv[at + 1];
  }
  auto question = argc > 1 ? questions.find(argv[1]) : questions.end();
  if (question == questions.end()) {
    std::fprintf(stderr, "usage: apis API [--cupti NAME] [--chip CHIP]; the APIs:");
    for (const auto &known : questions) std::fprintf(stderr, " %s", known.first.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  asked = question->first;
  question->second();
}
