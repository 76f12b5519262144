// The APIs that trace, and the one that saves a device: no counter is read.
#include "gpu.hpp"

#include <cupti_checkpoint.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<unsigned> kernels{0};
std::atomic<unsigned> launches{0};

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records) {
  *size = 1 << 20;
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, *size));
  *records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
  auto next = reinterpret_cast<decltype(&::cuptiActivityGetNextRecord)>(cupti_function("cuptiActivityGetNextRecord"));
  CUpti_Activity *record = nullptr;
  while (next(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++kernels;
  std::free(buffer);
}

void CUPTIAPI on_call(void *, CUpti_CallbackDomain, CUpti_CallbackId id, const void *data) {
  auto call = static_cast<const CUpti_CallbackData *>(data);
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel && call->callbackSite == CUPTI_API_ENTER) ++launches;
}

}  // namespace

void ask_activity() {
  CUPTI(cuptiActivityRegisterCallbacks, give_buffer, take_buffer);
  CUPTI(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  Gpu gpu;
  gpu.launch();
  CUPTI(cuptiActivityFlushAll, 0);
  answer(kernels == 1, std::to_string(kernels) + " kernel records of 1 launch");
}

void ask_callback() {
  CUpti_SubscriberHandle subscriber;
  CUPTI(cuptiSubscribe, &subscriber, on_call, nullptr);
  CUPTI(cuptiEnableDomain, 1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  Gpu gpu;
  gpu.launch();
  answer(launches == 1, std::to_string(launches) + " callbacks of 1 launch");
}

void ask_checkpoint() {
  using namespace NV::Cupti::Checkpoint;
  auto call = [](const char *name, CUpti_Checkpoint *checkpoint) {
    check_cupti(reinterpret_cast<decltype(&cuptiCheckpointSave)>(function_of("libcheckpoint.so", name))(checkpoint), name);
  };
  Gpu gpu;
  gpu.launch();
  CUpti_Checkpoint checkpoint = {};
  checkpoint.structSize = CUpti_Checkpoint_STRUCT_SIZE;
  checkpoint.ctx = gpu.context;
  checkpoint.optimizations = CUPTI_CHECKPOINT_OPT_TRANSFER;
  auto before = gpu.read();
  call("cuptiCheckpointSave", &checkpoint);
  gpu.launch();
  auto changed = gpu.read();
  call("cuptiCheckpointRestore", &checkpoint);
  auto after = gpu.read();
  call("cuptiCheckpointFree", &checkpoint);
  answer(before == after && before != changed, before == after ? "the device's memory came back" : "it did not come back");
}
