/* Empties the folder of a released volume, so that the next claim finds nothing in it. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdio.h>

static int drop(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info; (void)kind;
  return at->level && remove(path) ? (perror(path), 1) : 0;
}

int main(int count, char **words) {
  return count == 2 ? nftw(words[1], drop, 64, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0 : 2;
}
