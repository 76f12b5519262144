/* A library that opens others: its own search paths count. */
#include <dlfcn.h>

void *open_it(const char *name)
{
  void *handle = dlopen(name, RTLD_NOW);
  /* What follows the call keeps it from being a jump, after which main would be the caller. */
  __asm__ volatile ("");
  return handle;
}
