#include "t.h"

int t_checks, t_failures;

int t_end(void) {
  if (t_failures || !t_checks) printf("%d of %d checks failed\n", t_failures, t_checks);
  return t_failures || !t_checks ? 1 : 0;
}
