/* Runs a program in a root as somebody, with the capabilities that an engine leaves to a container:
   as_user ROOT UID GID GROUPS COUNT VARIABLE... PROGRAM ARGUMENT...
   GROUPS are numbers with commas between them, or "-". Only the variables are in the environment. */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    gid_t groups[64], gid = (gid_t)atol(argv[3]);
    uid_t uid = (uid_t)atol(argv[2]);
    size_t many = 0, count = (size_t)atol(argv[5]);
    char *environment[64] = {0};
    if (argc < 7 || count > 60)
        return 120;
    for (char *group = strtok(argv[4], ","); group && many < 64; group = strtok(NULL, ","))
        if (*group != '-')
            groups[many++] = (gid_t)atol(group);
    memcpy(environment, argv + 6, count * sizeof *environment);
    /* moby, oci/caps/defaults.go */
    for (int capability = 0; capability < 41; capability++)
        if (!(0xa80425fbULL >> capability & 1))
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (chroot(argv[1]) || chdir("/") || setgroups(many, groups) || setresgid(gid, gid, gid) ||
        setresuid(uid, uid, uid))
        return 121;
    execve(argv[6 + count], argv + 6 + count, environment);
    /* As a shell says it. */
    fprintf(stderr, "%s: %m\n", argv[6 + count]);
    return 122;
}
