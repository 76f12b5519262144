/* Opens names one after the other, itself or through a library, and prints what is mapped or what dlerror says:
   opener CALLER NAME…, where CALLER is the path of a library with open_it(), or "-". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int print_map(struct dl_phdr_info *map, size_t size, void *more)
{
  printf("map %s\n", map->dlpi_name);
  return 0;
}

int main(int argc, char **argv)
{
  void *(*open_it)(const char *) = NULL;
  if (argc > 1 && strcmp(argv[1], "-") != 0) {
    void *caller = dlopen(argv[1], RTLD_NOW);
    if (caller == NULL)
      return printf("caller: %s\n", dlerror()), 1;
    open_it = (void *(*)(const char *)) dlsym(caller, "open_it");
  }
  for (int i = 2; i < argc; i++) {
    void *handle = open_it ? open_it(argv[i]) : dlopen(argv[i], RTLD_NOW);
    if (handle == NULL)
      return printf("error %s\n", dlerror()), 0;
    struct link_map *map;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    printf("opened %s\n", map->l_name);
  }
  dl_iterate_phdr(print_map, NULL);
  return 0;
}
