/* Chooses the rank that keeps a stage's blocks of activations: the one with the most room below its limit. */
#include "base/mem.h"
#include "cost/cost.h"
#include "planner/obscura/obscura.h"

/* Returns the bytes that a stage leaves free below its rank's limit. */
static int64_t get_room(const struct obscura *x, const struct obscura_draft *d, int32_t s) {
  int64_t limit = planner_get_limit(x->request, planner_get_rank(x->request, s));
  return (limit < INT64_MAX / 2 ? limit : INT64_MAX / 2) - obscura_draft_get_peak(x, d, s);
}

/* Returns the stage, other than s, that leaves most bytes free. */
static int32_t find_roomiest(const struct obscura *x, const int64_t *room, int32_t s) {
  int32_t best = s == 0 ? 1 : 0;
  for (int32_t other = 0; other < x->n_stages; other++)
    if (other != s && room[other] > room[best]) best = other;
  return best;
}

int32_t obscura_get_peer(const struct obscura *x, const struct obscura_draft *d, int32_t stage) {
  int64_t *room = MEM_NEW(int64_t, x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++) room[s] = get_room(x, d, s);
  for (int32_t s = 0; s < stage; s++) /* those of the stages before have their places */
    if (d->lambda[s])
      room[find_roomiest(x, room, s)] -=
          (int64_t)((double)d->lambda[s] * d->beta * (double)(d->needs[s].keep - d->discarded[s]));
  int32_t peer = find_roomiest(x, room, stage);
  mem_free(room);
  return planner_get_rank(x->request, peer);
}

bool obscura_links_are_faster(const struct obscura *x, const struct plan_stage *stages) {
  if (x->n_stages < 2 || !x->request->cost || !x->request->simulate) return false;
  struct obscura_draft *d = obscura_draft_create(x, stages);
  bool faster = false;
  d->beta = 1;
  for (int32_t s = 0; s < x->n_stages && !faster; s++) {
    d->tier = PLAN_TIER_HOST;
    double host = obscura_get_transfer(x, d, s);
    d->tier = PLAN_TIER_RANK;
    faster = obscura_get_transfer(x, d, s) < host;
  }
  obscura_draft_destroy(&d);
  return faster;
}
