// The APIs that read counters through the host library libnvperf_host.so, which libcupti opens by its bare name.
#include "gpu.hpp"

#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_sass_metrics.h>

namespace {

const char *metric = "sm__cycles_active.avg";
const char *sass_metric = "smsp__sass_inst_executed";

void initialize_profiler() {
  PARAMS(CUpti_Profiler_Initialize_Params, params);
  CUPTI(cuptiProfilerInitialize, &params);
}

// The host half: the configuration of one metric for a chip.
struct Host {
  CUpti_Profiler_Host_Object *object;
  std::vector<uint8_t> config;

  Host(CUpti_ProfilerType type, const std::string &chip, const uint8_t *availability) {
    PARAMS(CUpti_Profiler_Host_Initialize_Params, start);
    start.profilerType = type;
    start.pChipName = chip.c_str();
    start.pCounterAvailabilityImage = availability;
    CUPTI(cuptiProfilerHostInitialize, &start);
    object = start.pHostObject;
    PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
    add.pHostObject = object;
    add.ppMetricNames = &metric;
    add.numMetrics = 1;
    CUPTI(cuptiProfilerHostConfigAddMetrics, &add);
    PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
    size.pHostObject = object;
    CUPTI(cuptiProfilerHostGetConfigImageSize, &size);
    config.resize(size.configImageSize);
    PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, image);
    image.pHostObject = object;
    image.configImageSize = config.size();
    image.pConfigImage = config.data();
    CUPTI(cuptiProfilerHostGetConfigImage, &image);
  }

  double value(const std::vector<uint8_t> &counters, size_t index) const {
    double value = 0;
    PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, params);
    params.pHostObject = object;
    params.pCounterDataImage = counters.data();
    params.counterDataImageSize = counters.size();
    params.rangeIndex = index;
    params.ppMetricNames = &metric;
    params.numMetrics = 1;
    params.pMetricValues = &value;
    CUPTI(cuptiProfilerHostEvaluateToGpuValues, &params);
    return value;
  }
};

std::vector<uint8_t> availability_of(const Gpu &gpu) {
  PARAMS(CUpti_Profiler_GetCounterAvailability_Params, params);
  params.ctx = gpu.context;
  CUPTI(cuptiProfilerGetCounterAvailability, &params);
  std::vector<uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  CUPTI(cuptiProfilerGetCounterAvailability, &params);
  return image;
}

std::vector<uint8_t> range_counters(CUpti_RangeProfiler_Object *object) {
  PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = object;
  size.pMetricNames = &metric;
  size.numMetrics = 1;
  size.maxNumOfRanges = 1;
  size.maxNumRangeTreeNodes = 1;
  CUPTI(cuptiRangeProfilerGetCounterDataSize, &size);
  std::vector<uint8_t> counters(size.counterDataSize);
  PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, init);
  init.pRangeProfilerObject = object;
  init.counterDataSize = counters.size();
  init.pCounterData = counters.data();
  CUPTI(cuptiRangeProfilerCounterDataImageInitialize, &init);
  return counters;
}

std::vector<uint8_t> sample_counters(CUpti_PmSampling_Object *object, uint32_t samples) {
  PARAMS(CUpti_PmSampling_GetCounterDataSize_Params, size);
  size.pPmSamplingObject = object;
  size.pMetricNames = &metric;
  size.numMetrics = 1;
  size.maxSamples = samples;
  CUPTI(cuptiPmSamplingGetCounterDataSize, &size);
  std::vector<uint8_t> counters(size.counterDataSize);
  PARAMS(CUpti_PmSampling_CounterDataImage_Initialize_Params, init);
  init.pPmSamplingObject = object;
  init.counterDataSize = counters.size();
  init.pCounterData = counters.data();
  CUPTI(cuptiPmSamplingCounterDataImageInitialize, &init);
  return counters;
}

uint64_t sass_metric_id(const std::string &chip) {
  PARAMS(CUpti_SassMetrics_GetProperties_Params, params);
  params.pChipName = chip.c_str();
  params.pMetricName = sass_metric;
  CUPTI(cuptiSassMetricsGetProperties, &params);
  return params.metric.metricId;
}

}  // namespace

void ask_host_profiling() {
  Host host(CUPTI_PROFILER_TYPE_RANGE_PROFILER, chip_name(), nullptr);
  answer(!host.config.empty(), "a configuration of " + std::to_string(host.config.size()) + " bytes for " + metric);
}

void ask_range_profiling() {
  Gpu gpu;
  initialize_profiler();
  auto availability = availability_of(gpu);
  Host host(CUPTI_PROFILER_TYPE_RANGE_PROFILER, chip_name(), availability.data());
  PARAMS(CUpti_RangeProfiler_Enable_Params, enable);
  enable.ctx = gpu.context;
  CUPTI(cuptiRangeProfilerEnable, &enable);
  auto object = enable.pRangeProfilerObject;
  auto counters = range_counters(object);
  PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = object;
  config.configSize = host.config.size();
  config.pConfig = host.config.data();
  config.counterDataImageSize = counters.size();
  config.pCounterDataImage = counters.data();
  config.range = CUPTI_AutoRange;
  config.replayMode = CUPTI_KernelReplay;
  config.maxRangesPerPass = 1;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.targetNestingLevel = 1;
  CUPTI(cuptiRangeProfilerSetConfig, &config);
  PARAMS(CUpti_RangeProfiler_Start_Params, start);
  start.pRangeProfilerObject = object;
  CUPTI(cuptiRangeProfilerStart, &start);
  gpu.launch();
  PARAMS(CUpti_RangeProfiler_Stop_Params, stop);
  stop.pRangeProfilerObject = object;
  CUPTI(cuptiRangeProfilerStop, &stop);
  PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
  decode.pRangeProfilerObject = object;
  CUPTI(cuptiRangeProfilerDecodeData, &decode);
  double value = host.value(counters, 0);
  answer(value > 0, std::string(metric) + " = " + std::to_string(value));
}

void ask_pm_sampling() {
  const uint32_t samples = 10000;
  Gpu gpu;
  initialize_profiler();
  PARAMS(CUpti_PmSampling_GetCounterAvailability_Params, availability);
  CUPTI(cuptiPmSamplingGetCounterAvailability, &availability);
  std::vector<uint8_t> image(availability.counterAvailabilityImageSize);
  availability.pCounterAvailabilityImage = image.data();
  CUPTI(cuptiPmSamplingGetCounterAvailability, &availability);
  Host host(CUPTI_PROFILER_TYPE_PM_SAMPLING, chip_name(), image.data());
  PARAMS(CUpti_PmSampling_Enable_Params, enable);
  CUPTI(cuptiPmSamplingEnable, &enable);
  auto object = enable.pPmSamplingObject;
  PARAMS(CUpti_PmSampling_SetConfig_Params, config);
  config.pPmSamplingObject = object;
  config.configSize = host.config.size();
  config.pConfig = host.config.data();
  config.hardwareBufferSize = 64 << 20;
  config.samplingInterval = 100000;  // nanoseconds
  config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  CUPTI(cuptiPmSamplingSetConfig, &config);
  auto counters = sample_counters(object, samples);
  PARAMS(CUpti_PmSampling_Start_Params, start);
  start.pPmSamplingObject = object;
  CUPTI(cuptiPmSamplingStart, &start);
  for (int round = 0; round < 50; ++round) gpu.launch();
  PARAMS(CUpti_PmSampling_Stop_Params, stop);
  stop.pPmSamplingObject = object;
  CUPTI(cuptiPmSamplingStop, &stop);
  PARAMS(CUpti_PmSampling_DecodeData_Params, decode);
  decode.pPmSamplingObject = object;
  decode.pCounterDataImage = counters.data();
  decode.counterDataImageSize = counters.size();
  CUPTI(cuptiPmSamplingDecodeData, &decode);
  PARAMS(CUpti_PmSampling_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = counters.data();
  info.counterDataImageSize = counters.size();
  CUPTI(cuptiPmSamplingGetCounterDataInfo, &info);
  answer(info.numCompletedSamples > 0, std::to_string(info.numCompletedSamples) + " samples of " + metric);
}

void ask_sass_metrics() {
  Gpu gpu;
  initialize_profiler();
  CUpti_SassMetrics_Config wanted = {sass_metric_id(chip_name()), CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU};
  PARAMS(CUpti_SassMetricsSetConfig_Params, config);
  config.numOfMetricConfig = 1;
  config.pConfigs = &wanted;
  CUPTI(cuptiSassMetricsSetConfig, &config);
  PARAMS(CUpti_SassMetricsEnable_Params, enable);
  enable.ctx = gpu.context;
  enable.enableLazyPatching = 1;
  CUPTI(cuptiSassMetricsEnable, &enable);
  gpu.launch();
  PARAMS(CUpti_SassMetricsGetDataProperties_Params, found);
  found.ctx = gpu.context;
  CUPTI(cuptiSassMetricsGetDataProperties, &found);
  answer(found.numOfPatchedInstructionRecords > 0,
         std::to_string(found.numOfPatchedInstructionRecords) + " instructions of 1 kernel with " + sass_metric);
}
