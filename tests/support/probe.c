/* Opens an object as the real loader does, and says what came of it: its path and the paths of all objects of
   the process, or the loader's words.

   probe lazy|now NAME            opens NAME
   probe lazy|now NAME FUNCTION   opens NAME, whose FUNCTION opens what is asked about */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *words) {
  puts(words);
  return 1;
}

static struct link_map *map_of(void *handle) {
  struct link_map *map = NULL;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map : NULL;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int mode = strcmp(argv[1], "now") == 0 ? RTLD_NOW : RTLD_LAZY;
  void *handle = dlopen(argv[2], mode);
  if (handle == NULL) return failed(dlerror());
  if (argc > 3) {
    void *(*function)(void) = (void *(*)(void))dlsym(handle, argv[3]);
    if (function == NULL) return failed(dlerror());
    handle = function();
    if (handle == NULL) return failed(dlerror());
  }
  puts(map_of(handle)->l_name);
  for (struct link_map *map = map_of(dlopen(NULL, RTLD_LAZY)); map != NULL; map = map->l_next) puts(map->l_name);
  return 0;
}
