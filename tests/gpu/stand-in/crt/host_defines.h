// Stands in for the toolkit's header of this name where only the wheels of CUPTI and of the runtime are there: the
// headers of the runtime mark their types with these words, which mean nothing to a host compiler.
#pragma once
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __specialization_static static
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define CUDARTAPI
#define CUDARTAPI_CDECL
