#include "input/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static int smaller(int a, int b) { return a < b ? a : b; }

static int differs(char a, char b) { return tolower((unsigned char)a) != tolower((unsigned char)b); }

int suggest_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST || m > LONGEST) return INT_MAX;
  int rows[LONGEST + 1][LONGEST + 1];
  for (size_t i = 0; i <= n; i++) {
    for (size_t j = 0; j <= m; j++) {
      if (i == 0 || j == 0) {
        rows[i][j] = (int)(i + j);
        continue;
      }
      int cost = rows[i - 1][j - 1] + differs(a[i - 1], b[j - 1]);
      cost = smaller(cost, smaller(rows[i - 1][j], rows[i][j - 1]) + 1);
      if (i > 1 && j > 1 && !differs(a[i - 1], b[j - 2]) && !differs(a[i - 2], b[j - 1]))
        cost = smaller(cost, rows[i - 2][j - 2] + 1);
      rows[i][j] = cost;
    }
  }
  return rows[n][m];
}

void suggest_offer(struct suggestion *best, const char *word, const char *known, const char *answer) {
  size_t n = strlen(word), m = strlen(known), longer = n > m ? n : m;
  int distance = suggest_distance(word, known);
  /* One wrong letter of a two-letter word is still a likely slip. */
  int limit = longer < 6 ? (longer < 2 ? 0 : 1) : (int)(longer / 3);
  if (distance > limit || (best->word && distance >= best->distance)) return;
  *best = (struct suggestion){answer, distance};
}

const char *suggest_find(const char *word, const char *const *known) {
  struct suggestion best = {0};
  for (; *known; known++) suggest_offer(&best, word, *known, *known);
  return best.word;
}
