// PC sampling, and its files, which are written by libpcsamplingutil.so.
#include "gpu.hpp"

#include <cupti_pcsampling.h>
#include <cupti_pcsampling_util.h>
#include <unistd.h>

#include <fstream>

namespace {

using namespace CUPTI::PcSamplingUtil;

// The samples of one kernel, with the stall reasons that explain them.
struct Samples {
  std::vector<uint32_t> reasons;
  std::vector<std::vector<char>> names;
  std::vector<char *> name_pointers;
  std::vector<std::vector<CUpti_PCSamplingStallReason>> stalls;
  std::vector<CUpti_PCSamplingPCData> pcs;
  CUpti_PCSamplingData data = {};
  std::vector<CUpti_PCSamplingConfigurationInfo> config;

  explicit Samples(const Gpu &gpu) {
    CUpti_PCSamplingEnableParams enable = {CUpti_PCSamplingEnableParamsSize, nullptr, gpu.context};
    CUPTI(cuptiPCSamplingEnable, &enable);
    read_reasons(gpu);
    make_room();
    configure(gpu);
    gpu.launch();
    CUpti_PCSamplingGetDataParams get = {CUpti_PCSamplingGetDataParamsSize, nullptr, gpu.context, &data};
    CUPTI(cuptiPCSamplingGetData, &get);
  }

  void read_reasons(const Gpu &gpu) {
    size_t count = 0;
    CUpti_PCSamplingGetNumStallReasonsParams number = {CUpti_PCSamplingGetNumStallReasonsParamsSize, nullptr, gpu.context,
                                                       &count};
    CUPTI(cuptiPCSamplingGetNumStallReasons, &number);
    reasons.resize(count);
    names.assign(count, std::vector<char>(CUPTI_STALL_REASON_STRING_SIZE));
    for (auto &name : names) name_pointers.push_back(name.data());
    CUpti_PCSamplingGetStallReasonsParams get = {CUpti_PCSamplingGetStallReasonsParamsSize, nullptr,       gpu.context, count,
                                                 reasons.data(),                            name_pointers.data()};
    CUPTI(cuptiPCSamplingGetStallReasons, &get);
  }

  void make_room() {
    const size_t count = 1000;
    stalls.assign(count, std::vector<CUpti_PCSamplingStallReason>(reasons.size()));
    pcs.resize(count);
    for (size_t at = 0; at < count; ++at) {
      pcs[at].size = sizeof(CUpti_PCSamplingPCData);
      pcs[at].stallReason = stalls[at].data();
    }
    data.size = sizeof data;
    data.collectNumPcs = count;
    data.pPcData = pcs.data();
  }

  void configure(const Gpu &gpu) {
    CUpti_PCSamplingConfigurationInfo info = {};
    info.attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
    info.attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_KERNEL_SERIALIZED;
    config.push_back(info);
    info = {};
    info.attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON;
    info.attributeData.stallReasonData.stallReasonCount = reasons.size();
    info.attributeData.stallReasonData.pStallReasonIndex = reasons.data();
    config.push_back(info);
    info = {};
    info.attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    info.attributeData.samplingDataBufferData.samplingDataBuffer = &data;
    config.push_back(info);
    CUpti_PCSamplingConfigurationInfoParams set = {CUpti_PCSamplingConfigurationInfoParamsSize, nullptr, gpu.context,
                                                   config.size(), config.data()};
    CUPTI(cuptiPCSamplingSetConfigurationAttribute, &set);
  }
};

}  // namespace

void ask_pc_sampling() {
  Gpu gpu;
  Samples samples(gpu);
  answer(samples.data.totalNumPcs > 0, std::to_string(samples.data.totalSamples) + " samples at " +
                                           std::to_string(samples.data.totalNumPcs) + " instructions");
}

void ask_pc_sampling_files() {
  Gpu gpu;
  Samples samples(gpu);
  char name[] = "/tmp/pc-samples-XXXXXX";
  int file = mkstemp(name);
  if (file < 0) answer(false, "no temporary file can be made");
  close(file);
  PcSamplingStallReasons reasons = {samples.reasons.size(), samples.name_pointers.data(), samples.reasons.data()};
  CUptiUtil_PutPcSampDataParams put = {};
  put.size = CUptiUtil_PutPcSampDataParamsSize;
  put.bufferType = PC_SAMPLING_BUFFER_PC_TO_COUNTER_DATA;
  put.pSamplingData = &samples.data;
  put.numAttributes = samples.config.size();
  put.pPCSamplingConfigurationInfo = samples.config.data();
  put.pPcSamplingStallReasons = &reasons;
  put.fileName = name;
  auto write = reinterpret_cast<decltype(&CuptiUtilPutPcSampData)>(
      function_of("libpcsamplingutil.so", "CuptiUtilPutPcSampData"));
  auto result = write(&put);
  auto bytes = static_cast<long>(std::ifstream(name, std::ios::ate | std::ios::binary).tellg());
  unlink(name);
  answer(result == CUPTI_UTIL_SUCCESS && bytes > 0,
         "result " + std::to_string(result) + ", a file of " + std::to_string(bytes) + " bytes");
}
