/* Says what was preloaded and linked, and what dlopen makes of each argument. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int mapped(struct dl_phdr_info *info, size_t size, void *first) {
    (void)size;
    if (info->dlpi_name[0] == '/' && !strstr(info->dlpi_name, "linux-gnu") && !strstr(info->dlpi_name, "ld-"))
        printf("%s%s", *(int *)first ? "" : " ", info->dlpi_name), *(int *)first = 0;
    return 0;
}

int main(int argc, char **argv) {
    int first = 1;
    dl_iterate_phdr(mapped, &first);
    puts("");
    for (int at = 1; at < argc; at++) {
        struct link_map *map;
        void *handle = dlopen(argv[at], RTLD_LAZY);
        if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &map))
            puts(map->l_name);
        else
            puts(dlerror());
    }
    return 0;
}
