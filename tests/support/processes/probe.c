/* The objects of the generated images: programs, Python modules and libraries that get CUPTI in one way each, and say
   `gets PATH` with the file that is mapped, or `fails WORDS`. What stands between @ signs is room for a name, which is
   written into the compiled object. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM \
  "@NAME@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"

#ifdef CUPTI
unsigned cuptiGetVersion(unsigned *version) {
  *version = 22;
  /* It needs the C library, as the real one does. */
  return getpid() < 0;
}
#define EXPORT(name) unsigned name(void) { return 0; }
EXPORT(cuptiActivityEnable)
EXPORT(cuptiActivityFlushAll)
EXPORT(cuptiSubscribe)
EXPORT(cuptiProfilerInitialize)
EXPORT(cuptiPCSamplingEnable)
EXPORT(cuptiSassMetricsEnable)
EXPORT(cuptiRangeProfilerEnable)
EXPORT(cuptiProfilerHostInitialize)
EXPORT(cuptiPmSamplingEnable)
#ifdef STORAGE
static __thread char storage[STORAGE] __attribute__((tls_model("initial-exec")));
char *cuptiStorage(int at) { return storage + at; }
#endif
#endif

#ifdef UNBOUND
int nowhere_to_be_found(void);
int probe_unbound(void) { return nowhere_to_be_found(); }
#endif
#ifdef UNBOUND_DATA
extern int nowhere_to_be_found;
int *probe_address = &nowhere_to_be_found;
#endif

#ifdef MORE_LIBRARY
void more(void) {}
#endif
#ifdef MORE_DATA_LIBRARY
int more_data = 1;
#endif

#ifdef EMPTY
int nvperf_stub(void) { return 0; }
#endif

#if defined(LINK) || defined(OPEN) || defined(USES)
static void tell(const void *at) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4400];
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long from, to;
    int path = 0;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &from, &to, &path) == 2 && path > 0
        && from <= (unsigned long)at && (unsigned long)at < to) {
      printf("gets %s", line + path);
      fflush(stdout);
      return;
    }
  }
  puts("fails nothing is mapped there");
  fflush(stdout);
}
#endif

#ifdef LINK
unsigned cuptiGetVersion(unsigned *);
static void get(void) {
  unsigned version = 0;
  cuptiGetVersion(&version);
  tell((const void *)cuptiGetVersion);
}
#endif

#ifdef USES
void library_gets(void);
static void get(void) { library_gets(); }
#endif

#ifdef OPEN
#ifdef ASK
#define RESULT 0
static int get(const char *name) {
#else
#define RESULT
static void get(void) {
#endif
#if defined(ASK)
#elif defined(IMMEDIATE)
  char name[24];
  memcpy(name, IMMEDIATE, sizeof IMMEDIATE);
  __asm__ volatile("" : : "r"(name) : "memory");
#elif defined(PATTERN)
  static volatile char room[] = ROOM;
  char name[160];
  snprintf(name, sizeof name, (const char *)room, 12);
#else
  static volatile char room[] = ROOM;
  const char *name = (const char *)room;
#endif
#ifdef OTHER_NAMESPACE
  void *handle = dlmopen(LM_ID_NEWLM, name, RTLD_LAZY);
#else
  void *handle = dlopen(name, RTLD_LAZY);
#endif
  void *function = handle == NULL ? NULL : dlsym(handle, "cuptiGetVersion");
  if (function == NULL) {
    printf("fails %s\n", dlerror());
    fflush(stdout);
    return RESULT;
  }
  unsigned version = 0;
  ((unsigned (*)(unsigned *))function)(&version);
  tell(function);
  return RESULT;
}
#endif

#ifdef MORE
void more(void);
#endif

#ifdef MORE_DATA
extern int more_data;
#endif

#ifdef PROGRAM
int main(int argc, char **argv) {
#ifdef MORE
  /* Bound by the loader, or at the first call, which never comes. */
  if (argc > 9) more();
#endif
#ifdef MORE_DATA
  /* Bound by the loader, whenever functions are. */
  if (argc > 9 && more_data) return 1;
#endif
  get();
  return 0;
}
#endif

#ifdef WRAPPER
int main(int argc, char **argv) {
  execvp(argv[1], argv + 1);
  perror(argv[1]);
  return argc < 2 ? 2 : 127;
}
#endif

#ifdef ASK
int main(int argc, char **argv) {
  return argc == 2 && get(argv[1]);
}
#endif

#ifdef LIBRARY
void library_gets(void) { get(); }
#endif

#ifdef MODULE
/* PyModuleDef of CPython 3.11, so that its headers need not be there. */
struct definition {
  long references;
  void *type, *init;
  long index;
  void *copy;
  const char *name, *doc;
  long size;
  void *methods, *slots, *traverse, *clear, *release;
};
void *PyModule_Create2(struct definition *, int);
void *PyInit__C(void) __attribute__((alias("PyInit_probe_ext")));
void *PyInit_nvrx_cupti_module(void) __attribute__((alias("PyInit_probe_ext")));
void *PyInit_probe_ext(void) {
  static struct definition module = {1, 0, 0, 0, 0, "probe_ext", 0, -1, 0, 0, 0, 0, 0};
  get();
  return PyModule_Create2(&module, 1013);
}
#endif
