/* Stand-ins for launchers that a minimal Debian does not have, by the name under which the program is started:
   tini and dumb-init, gosu and su-exec, s6-setuidgid, numactl. They do what their manuals say of the environment. */
#define _GNU_SOURCE
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_number(const char *text) { return *text != 0 && strspn(text, "0123456789") == strlen(text); }

/* Becomes USER[:GROUP]; whether HOME follows is a matter of the launcher. */
static void become(char *spec, int sets_home) {
  char *group = strchr(spec, ':');
  if (group != NULL) *group++ = 0;
  struct passwd *user = is_number(spec) ? getpwuid(atoi(spec)) : getpwnam(spec);
  if (user == NULL && !is_number(spec)) exit(111);
  uid_t uid = user != NULL ? user->pw_uid : (uid_t)atoi(spec);
  gid_t gid = user != NULL ? user->pw_gid : uid;
  if (group != NULL && *group != 0) {
    struct group *found = is_number(group) ? NULL : getgrnam(group);
    gid = found != NULL ? found->gr_gid : (gid_t)atoi(group);
  }
  if (setgroups(1, &gid) != 0 || setgid(gid) != 0 || setuid(uid) != 0) exit(111);
  if (sets_home) setenv("HOME", user != NULL ? user->pw_dir : "/", 1);
}

int main(int count, char **words) {
  const char *name = basename(words[0]);
  int at = 1;
  if (strcmp(name, "gosu") == 0 || strcmp(name, "su-exec") == 0) {
    if (count < 3) return 111;
    become(words[at++], 1);
  } else if (strcmp(name, "s6-setuidgid") == 0) {
    if (count < 3) return 111;
    become(words[at++], 0);
  } else {
    while (at < count && words[at][0] == '-') {
      if (strcmp(words[at++], "--") == 0) break;
    }
  }
  if (at >= count) return 111;
  execvp(words[at], words + at);
  perror(words[at]);
  return 127;
}
