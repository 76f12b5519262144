/* What stands for real programs and libraries. -DLINKS: it is linked with CUPTI; -DNEWER: with functions of 12.8.
   -DOPENS="a","b": open_cupti() opens the first that the loader finds. -DMODULE=name: a module of Python.
   -DTIMESTAMP, -DEVENTS: it calls functions that later releases have no more.
   -DBUILT="flags": PyTorch's, which torch.__config__.show() prints.
   -DDRIVER=error: libcuda, whose cuInit returns this; -DASKS: it calls cuInit.
   -DMAIN: a program, which opens what there is to open. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#ifdef BUILT
const char flags[] = "Build settings: CXX_FLAGS=" BUILT " -DSYMBOLICATE_MOBILE_DEBUG_HANDLE -O2";
#endif

#ifdef LINKS
int cuptiActivityEnable(int);
int cuptiSubscribe(void *, void *, void *);
int (*const linked[])() = {(int (*)())cuptiActivityEnable, (int (*)())cuptiSubscribe};
#endif
#ifdef NEWER
int cuptiActivityEnableAllSyncRecords(int);
int (*const newer)(int) = cuptiActivityEnableAllSyncRecords;
#endif

#ifdef TIMESTAMP
int cuptiDeviceGetTimestamp(void *, void *);
int (*const timestamp)(void *, void *) = cuptiDeviceGetTimestamp;
#endif
#ifdef EVENTS
int cuptiGetNumEventDomains(unsigned *);
int cuptiEventGroupCreate(void *, void **, unsigned);
int (*const group)(void *, void **, unsigned) = cuptiEventGroupCreate;
#endif

#ifdef DRIVER
int cuInit(unsigned flags) { return DRIVER + 0 * flags; }
#endif
#ifdef ASKS
int cuInit(unsigned);
#endif

#ifdef OPENS
int open_cupti(void) {
  static const char *const names[] = {OPENS};
  for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
    if (dlopen(names[at], RTLD_NOW)) return 0;
    fprintf(stderr, "Could not load dynamic library: %s\n", dlerror());
  }
  return 1;
}
#endif

#ifdef MODULE
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define INIT_OF(name) PyInit_##name
#define INIT(name) INIT_OF(name)
/* A PyModuleDef without Python's headers: a head of five words, then name, text, size and five pointers. */
static void *definition[13];
void *PyModule_Create2(void *, int);
void *INIT(MODULE)(void) {
  definition[0] = (void *)1;
  definition[5] = TEXT(MODULE);
  definition[7] = (void *)-1;
  return PyModule_Create2(definition, 3);
}
#endif

#ifdef MAIN
int main(void) {
#ifdef OPENS
  return open_cupti();
#elif defined ASKS
  int error = cuInit(0);
  if (error) fprintf(stderr, "cuInit: error %d\n", error);
  return error != 0;
#elif defined EVENTS
  unsigned count = 0;
  int error = cuptiGetNumEventDomains(&count);
  if (error) fprintf(stderr, "cuptiGetNumEventDomains: error %d\n", error);
  return error != 0;
#else
  return 0;
#endif
}
#endif
