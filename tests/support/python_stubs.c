/* Modules and libraries that stand for real ones: compiled with -DMODULE=name, -DCUPTI or neither. */
#ifdef MODULE
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define INIT_OF(name) PyInit_##name
#define INIT(name) INIT_OF(name)
/* A PyModuleDef without Python's headers: a head of five words, then name, text, size and five pointers. */
static void *definition[13];
void *PyModule_Create2(void *, int);
#ifdef TAKES_CUPTI
const char *open_nvperf(void);
const char *(*taken)(void) = open_nvperf;
#endif
void *INIT(MODULE)(void) {
  definition[0] = (void *)1;
  definition[5] = TEXT(MODULE);
  definition[7] = (void *)-1;
  return PyModule_Create2(definition, 3);
}
#elif defined(CUPTI)
#include <dlfcn.h>
/* As CUPTI does for its counters: by the bare name, from its own code. */
const char *open_nvperf(void) { return dlopen("libnvperf_host.so", RTLD_NOW) ? "" : dlerror(); }
#else
int nothing;
#endif
