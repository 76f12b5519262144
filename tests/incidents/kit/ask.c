/* ask OBJECT: loads an object and has it open what it opens. Exit code 0: it found CUPTI; 1: it did not, in the loader's
   words. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words) {
  void *object = count == 2 ? dlopen(words[1], RTLD_NOW) : NULL;
  int (*open_cupti)(void) = object ? (int (*)(void))dlsym(object, "open_cupti") : NULL;
  if (!open_cupti) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return open_cupti();
}
