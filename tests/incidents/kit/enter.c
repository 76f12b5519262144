/* enter ROOT USER GROUP FOLDER NAME=VALUE… PROGRAM…: a program in a root file system, as an engine starts it. */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
  if (count < 6) return 125;
  gid_t group = (gid_t)atoi(words[3]);
  if (chroot(words[1]) || chdir(words[4]) || setgroups(1, &group) || setgid(group) || setuid((uid_t)atoi(words[2]))) {
    perror("enter");
    return 125;
  }
  clearenv();
  char **word = words + 5;
  while (*word && strchr(*word, '=')) putenv(*word++);
  if (*word) execvp(*word, word);
  perror(*word ? *word : "enter");
  return 127;
}
