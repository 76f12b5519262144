/* The program that every case starts in the end: it appends to /probe.log what its loader would see, as one record of
 * fields that end with a zero byte: path, user, directory, and each loader variable as `=value` or empty where unset. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char record[1 << 20];
static size_t used;

static void field(const char *before, const char *text) {
  size_t size = strlen(before) + strlen(text) + 1;
  if (used + size < sizeof record)
    used += sprintf(record + used, "%s%s", before, text) + 1;
}

static int is_loader(const char *path) {
  const char *last = strrchr(path, '/');
  last = last ? last + 1 : path;
  return strncmp(last, "ld-linux", 8) == 0 || strncmp(last, "ld.so", 5) == 0;
}

/* Options of the loader count as variables: they are for this program alone. */
static void take_options(void) {
  static char words[1 << 16];
  FILE *file = fopen("/proc/self/cmdline", "r");
  size_t size = file ? fread(words, 1, sizeof words - 1, file) : 0;
  if (!is_loader(words))
    return;
  for (char *word = words; word < words + size; word += strlen(word) + 1) {
    char *next = word + strlen(word) + 1;
    if (strcmp(word, "--library-path") == 0)
      setenv("LD_LIBRARY_PATH", next, 1);
    else if (strcmp(word, "--preload") == 0)
      setenv("LD_PRELOAD", next, 0);
  }
}

int main(int count, char **words) {
  static const char *names[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES"};
  char directory[PATH_MAX] = "", path[2 * PATH_MAX + 2], user[32];
  /* The program itself, also behind a `#!` line; where the loader was started with it as its argument, that. */
  static char program[PATH_MAX];
  const char *name = program;
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0 || is_loader(program))
    name = count > 0 ? words[0] : "";
  take_options();
  if (!getcwd(directory, sizeof directory))
    strcpy(directory, "?");
  if (name[0] == '/')
    snprintf(path, sizeof path, "%s", name);
  else
    snprintf(path, sizeof path, "%s/%s", strcmp(directory, "/") ? directory : "", name);
  snprintf(user, sizeof user, "%d", (int)getuid());
  field("", path);
  field("", user);
  field("", directory);
  for (int i = 0; i < 4; i++) {
    const char *value = getenv(names[i]);
    field(value ? "=" : "", value ? value : "");
  }
  int log = open("/probe.log", O_WRONLY | O_APPEND);
  return log < 0 || write(log, record, used) < 0;
}
