/* A library with what libraries have: data, zeros, functions that run at load, versions, calls of others. */
#include <stdio.h>
#include <stdlib.h>

static int zeros[5000];
static int numbers[3] = { 1, 2, 3 };
static int *pointers[2] = { numbers, zeros };
static const char *const names[2] = { "one", "two" };
#ifdef THREADS
__thread int of_thread[10] = { 7 };
#endif

__attribute__((constructor)) static void at_load(void)
{
  zeros[0] = numbers[1];
}

__attribute__((destructor)) static void at_end(void)
{
  zeros[1]++;
}

const char *probe_name(int number)
{
  return names[number & 1];
}

int probe(int number)
{
#ifdef THREADS
  of_thread[1] = number;
#endif
#ifdef ALONE
  return *pointers[number & 1] + zeros[0];
#else
  if (number == 12345)
    puts(getenv("PROBE") ? probe_name(number) : "none");
  return *pointers[number & 1] + zeros[0];
#endif
}
