/* Blocks of planner obscura that go on to disk: a case worked out by hand place by place, the totals that decide, and
 * random ones, in which host memory is over its limit only where no block has the time to be on disk. */
#include "make_plan.h"
#include "plan/plan_move.h"
#include "planner/obscura/obscura.h"

enum { BYTES = 100, MICROS = 8 };

/* GPipe on one rank: the forwards are actions 0 to m-1, the backwards m to 2m-1. */
struct spill_case {
  struct model *model;
  struct plan *plan;
  int64_t host, disk;
  struct params params;
  struct plan_request request;
  struct plan_move moves[MAX_MICRO];
  int32_t n;
};

static void open_case(struct spill_case *c, int32_t m) {
  *c = (struct spill_case){.model = make_tiny_model(2, false), .host = INT64_MAX, .disk = INT64_MAX};
  c->plan = make_plan(c->model, "gpipe", 1, m, false);
}

static void close_case(struct spill_case *c) {
  plan_destroy(&c->plan);
  model_destroy(&c->model);
}

/* Each block leaves during its forward and the next action and comes back with its use; all wait in host memory. */
static void put_moves(struct spill_case *c) {
  c->n = c->plan->n_micro;
  for (int32_t i = 0; i < c->n; i++)
    c->moves[i] = (struct plan_move){.micro = i,
                                     .tier = PLAN_TIER_HOST,
                                     .out_start = i,
                                     .out_end = i + 1,
                                     .in_start = c->n + i,
                                     .peer = -1,
                                     .peer_start = -1,
                                     .peer_end = -1,
                                     .disk_start = -1,
                                     .disk_end = -1};
}

static void spill(struct spill_case *c, enum params_swap_tier tier) {
  c->request = (struct plan_request){
      .model = c->model, .params = &c->params, .n_ranks = 1, .host_limit = &c->host, .disk_limit = &c->disk};
  c->params.pipeline.swap_tier = (int)tier;
  struct obscura x = {.request = &c->request, .n_stages = 1};
  obscura_spill(&x, c->plan, 0, BYTES, c->moves, c->n);
}

/* By hand, with room for four: of those that have two actions for the way there and two for the way back the one that
 * is needed last; else with one action each way; block 2 goes sooner and comes back later in the end. */
static void test_by_hand(void) {
  static const int32_t places[MICROS][2] = {{-1, -1}, {4, 7}, {4, 9}, {6, 9}, {6, 11}, {7, 12}, {8, 13}, {-1, -1}};
  struct spill_case c;
  open_case(&c, MICROS);
  put_moves(&c);
  c.host = 4 * BYTES + BYTES / 2;
  spill(&c, PARAMS_SWAP_TIER_AUTO);
  for (int32_t i = 0; i < MICROS; i++) {
    const struct plan_move *m = &c.moves[i];
    T_CHECK(m->disk_start == places[i][0] && m->disk_end == places[i][1], "block %d: %d to %d, not %d to %d", (int)i,
            (int)m->disk_start, (int)m->disk_end, (int)places[i][0], (int)places[i][1]);
    T_CHECK((m->tier == PLAN_TIER_DISK) == (m->disk_start >= 0), "block %d: tier %d", (int)i, (int)m->tier);
  }
  close_case(&c);
}

static int32_t count_on_disk(int64_t host, int64_t disk, enum params_swap_tier tier) {
  struct spill_case c;
  int32_t n = 0;
  open_case(&c, MICROS);
  put_moves(&c);
  c.host = host;
  c.disk = disk;
  spill(&c, tier);
  for (int32_t i = 0; i < MICROS; i++) n += c.moves[i].tier == PLAN_TIER_DISK;
  close_case(&c);
  return n;
}

/* At action 8 all eight are in host memory: that decides, to the byte. Where nothing may go to disk none does; with
 * tier disk all that can. */
static void test_totals(void) {
  T_CHECK(count_on_disk(MICROS * BYTES, INT64_MAX, PARAMS_SWAP_TIER_AUTO) == 0, "there is room for all");
  T_CHECK(count_on_disk(MICROS * BYTES - 1, INT64_MAX, PARAMS_SWAP_TIER_AUTO) == 1, "one byte less");
  T_CHECK(count_on_disk(INT64_MAX, INT64_MAX, PARAMS_SWAP_TIER_AUTO) == 0, "no limit");
  T_CHECK(count_on_disk(0, 0, PARAMS_SWAP_TIER_AUTO) == 0 && count_on_disk(0, 0, PARAMS_SWAP_TIER_DISK) == 0,
          "no disk");
  T_CHECK(count_on_disk(0, INT64_MAX, PARAMS_SWAP_TIER_HOST) == 0, "tier host");
  T_CHECK(count_on_disk(0, INT64_MAX, PARAMS_SWAP_TIER_AUTO) == MICROS, "no host memory: %d on disk",
          (int)count_on_disk(0, INT64_MAX, PARAMS_SWAP_TIER_AUTO));
  T_CHECK(count_on_disk(INT64_MAX - 1, INT64_MAX, PARAMS_SWAP_TIER_DISK) == MICROS, "tier disk");
  T_CHECK(count_on_disk(0, 1, PARAMS_SWAP_TIER_AUTO) == MICROS, "how much a disk has is for the evaluation to find");
}

/* ---- random ones ---- */

/* plan.h: from the start of the action after out_start (of out_end, if that is before) to the end of the one that needs
 * the block, but for what lies between disk_start and disk_end. */
static bool is_in_memory(const struct plan_move *m, int32_t use, int32_t place) {
  int32_t first = m->out_start < m->out_end ? m->out_start + 1 : m->out_end;
  bool on_disk = m->tier == PLAN_TIER_DISK && place > m->disk_start && place < m->disk_end;
  return place >= first && place <= use && !on_disk;
}

static void check_place(const struct spill_case *c, int trial, int32_t place, int32_t most) {
  int32_t held = 0, could = -1;
  for (int32_t k = 0; k < c->n; k++) {
    const struct plan_move *m = &c->moves[k];
    if (!is_in_memory(m, c->plan->n_micro + m->micro, place)) continue;
    held++;
    if (m->out_end + 1 < place && place < m->in_start - 1) could = m->micro;
  }
  T_CHECK(held <= most || could < 0, "trial %d place %d: %d blocks, room for %d; block %d could be on disk", trial,
          (int)place, (int)held, (int)most, (int)could);
}

static void test_random(void) {
  int n_disk = 0, n_host = 0;
  for (int trial = 0; trial < 300; trial++) {
    struct spill_case c;
    int32_t m = 2 + draw(30), most = draw(m);
    open_case(&c, m);
    put_moves(&c);
    c.n = 0;
    for (int32_t i = 0; i < m; i++) {
      if (draw(4) == 0) continue;
      struct plan_move move = c.moves[i];
      move.out_end = i + draw(m < 4 ? m : 4);
      move.in_start = move.out_end + 1 + draw(m + i - move.out_end);
      c.moves[c.n++] = move;
    }
    c.host = (int64_t)most * BYTES + draw(BYTES);
    spill(&c, draw(4) ? PARAMS_SWAP_TIER_AUTO : PARAMS_SWAP_TIER_DISK);
    if (c.params.pipeline.swap_tier == PARAMS_SWAP_TIER_DISK) most = 0;
    for (int32_t place = 0; place < 2 * m; place++) check_place(&c, trial, place, most);
    for (int32_t k = 0; k < c.n; k++) {
      const struct plan_move *move = &c.moves[k];
      bool disk = move->tier == PLAN_TIER_DISK;
      T_CHECK(!disk || (move->disk_start > move->out_end && move->disk_end < move->in_start &&
                        move->disk_start + 1 < move->disk_end),
              "trial %d block %d", trial, (int)move->micro);
      T_CHECK(!disk || move->disk_start <= move->out_end + 2 || move->disk_end >= move->in_start - 2,
              "trial %d block %d: more than two actions on its way", trial, (int)move->micro);
      n_disk += disk;
      n_host += !disk;
    }
    close_case(&c);
  }
  T_CHECK(n_disk > 300 && n_host > 300, "%d on disk, %d not", n_disk, n_host);
}

int main(void) {
  test_by_hand();
  test_totals();
  test_random();
  return t_end();
}
