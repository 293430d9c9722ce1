/* make.sh loads this into the program (LD_PRELOAD), so that fixtures come out the same each time: the wall clock stands at
 * COMPAT_NOW (seconds since 1970), and random bytes are derived from it. For test homes only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

static time_t stands_at(void) {
  const char *text = getenv("COMPAT_NOW");
  return text ? (time_t)strtoll(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t id, struct timespec *to) {
  static int (*real)(clockid_t, struct timespec *);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
    to->tv_sec = stands_at();
    to->tv_nsec = 0;
    return 0;
  }
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  return real(id, to);
}

int gettimeofday(struct timeval *to, void *zone) {
  (void)zone;
  to->tv_sec = stands_at();
  to->tv_usec = 0;
  return 0;
}

/* splitmix64 */
void arc4random_buf(void *to, size_t length) {
  static _Atomic uint64_t drawn;
  unsigned char *bytes = to;
  for (size_t i = 0; i < length; i++) {
    uint64_t z = (uint64_t)stands_at() * 0x2545f4914f6cdd1dULL + ++drawn * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    bytes[i] = (unsigned char)(z ^ (z >> 31));
  }
}

ssize_t getrandom(void *to, size_t length, unsigned flags) {
  (void)flags;
  arc4random_buf(to, length);
  return (ssize_t)length;
}

int getentropy(void *to, size_t length) {
  arc4random_buf(to, length);
  return 0;
}

uint32_t arc4random(void) {
  uint32_t word;
  arc4random_buf(&word, sizeof word);
  return word;
}
