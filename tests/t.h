/* The test harness: T_CHECK counts failures, t_end makes the exit code of them: 0 passed, 1 failed, 77 skipped. */
#ifndef PENSTOCK_TESTS_T_H
#define PENSTOCK_TESTS_T_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the whole program: what the test shares with others (libtests.a) counts here too. */
extern int t_checks, t_failures;

#define T_CHECK(condition, ...)                                                                                        \
  do {                                                                                                                 \
    t_checks++;                                                                                                        \
    if (!(condition) && ++t_failures <= 20) {                                                                          \
      fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #condition);                                          \
      fprintf(stderr, __VA_ARGS__);                                                                                    \
      fputc('\n', stderr);                                                                                             \
    }                                                                                                                  \
  } while (0)

#define T_SKIP(...)                                                                                                    \
  do {                                                                                                                 \
    printf("skipped: ");                                                                                               \
    printf(__VA_ARGS__);                                                                                               \
    putchar('\n');                                                                                                     \
    exit(77);                                                                                                          \
  } while (0)

/* Of a serial test: `return t_end();` (MPI tests reduce t_failures over the ranks first). A test that checked nothing
 * fails. */
int t_end(void);

#endif
