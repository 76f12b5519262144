//! The names of CUPTI's libraries up to the number of a soname.

/// The stem of libcupti's own names.
pub(crate) const CUPTI: &str = "libcupti.so";

/// The libraries that come with libcupti in every package of CUPTI, by their stems.
pub(crate) const COMPANIONS: [&str; 4] = [
    "libnvperf_host.so",
    "libnvperf_target.so",
    "libpcsamplingutil.so",
    "libcheckpoint.so",
];
