#include "report/report_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/step_parts.h"
#include "report/columns.h"

/* ---- late nodes ---- */

static void note_late(struct report *report, double step, const struct node_row *node, enum report_cause cause,
                      double seconds) {
  if (seconds < 0.01 * step || seconds < 1e-4) return;
  struct report_late late = {.step = node->step,
                             .rank = node->rank,
                             .stage = node->stage,
                             .micro = node->microbatch,
                             .layer = node->layer,
                             .kind = (uint8_t)node->kind,
                             .cause = cause,
                             .seconds = seconds};
  int64_t filled = report->n_late < REPORT_WORST ? report->n_late : REPORT_WORST, at = filled;
  report->n_late++;
  while (at > 0 && report->worst[at - 1].seconds < seconds) at--;
  for (int64_t i = filled < REPORT_WORST ? filled : REPORT_WORST - 1; i > at; i--)
    report->worst[i] = report->worst[i - 1];
  if (at < REPORT_WORST) report->worst[at] = late;
}

struct seer {
  struct report *report;
  const struct step_view *view;
};

/* A node is late by what is left when its data was there, and a message by what it stood ready. */
static void see_gap(void *context, const struct step_gap *gap) {
  const struct seer *seer = context;
  const struct step_view *v = seer->view;
  const struct node_row *node = &v->rows[gap->node], *after = gap->after < 0 ? NULL : &v->rows[gap->after];
  enum report_cause cause = REPORT_START;
  if (after && after->kind == NODE_N) return;
  if (after && after->stream == STREAM_SEND) cause = REPORT_SEND;
  if (after && after->stream >= STREAM_COPY_OUT) cause = REPORT_BLOCK;
  note_late(seer->report, v->until - v->begin, node, cause, node->start_s - gap->there);
  note_late(seer->report, v->until - v->begin, node, REPORT_MESSAGE, gap->moving - gap->made);
}

/* ---- sums ---- */

/* One step may have more stages than those before it. */
static void make_room(const struct step_view *v, struct report *report) {
  if (v->n_stages <= report->n_stages) return;
  report->stages = mem_resize(report->stages, sizeof *report->stages * (size_t)v->n_stages);
  for (int32_t s = report->n_stages; s < v->n_stages; s++) report->stages[s] = (struct step_stage){.rank = -1};
  report->n_stages = v->n_stages;
}

static void add_rank(struct report_rank *sum, const struct step_rank *rank) {
  struct step_idle idle = step_parts_get_idle(rank);
  sum->busy += rank->busy;
  sum->bubble += step_parts_get_cause(rank, IDLE_DATA);
  sum->wait += step_parts_get_cause(rank, IDLE_MESSAGE) + step_parts_get_cause(rank, IDLE_SEND);
  sum->offload += step_parts_get_cause(rank, IDLE_OFFLOAD);
  sum->other += step_parts_get_cause(rank, IDLE_OTHER);
#define X(name, ...) sum->idle.name += idle.name;
  STEP_IDLE_WORDS(X)
#undef X
  for (int k = 0; k < NODE_KIND_COUNT; k++) sum->kinds[k] += rank->kinds[k];
  sum->blocks += rank->blocks;
  sum->block_bytes += rank->block_bytes;
  sum->block_seconds += rank->block_seconds;
  sum->block_exposed += rank->block_exposed;
}

void report_step_add(const struct step_view *v, struct report *report) {
  struct step_rank *ranks = MEM_NEW(struct step_rank, report->n_ranks);
  struct seer seer = {report, v};
  make_room(v, report);
  step_parts_add(v, ranks, report->n_ranks, report->stages, see_gap, &seer);
  for (int32_t rank = 0; rank < report->n_ranks; rank++) add_rank(&report->ranks[rank], &ranks[rank]);
  mem_free(ranks);
}

/* ---- the picture ---- */

/* A class is a kind; of passes of a rank's odd chunks (its second stage, its fourth ...) the kind in lower case. */
static int find_class(const struct node_row *node, const int32_t *chunks) {
  bool odd = node->stage >= 0 && chunks[node->stage] % 2 == 1;
  return node->kind + (odd ? NODE_KIND_COUNT : 0);
}

static char get_letter(int class) {
  if (class < 0) return '.';
  char letter = node_kind_get_name((enum node_kind)(class % NODE_KIND_COUNT))[0];
  return class < NODE_KIND_COUNT ? letter : (char)(letter - 'A' + 'a');
}

char *report_step_draw(const struct step_view *v) {
  char *picture = mem_alloc((size_t)v->n_ranks * (REPORT_PICTURE_COLUMNS + 1) + 1);
  int32_t n_stages, n_chunks, *chunks = columns_find_chunks(v->rows, v->n_nodes, &n_stages, &n_chunks);
  int chosen[REPORT_PICTURE_COLUMNS];
  struct columns columns;
  columns_init(&columns, REPORT_PICTURE_COLUMNS, 2 * NODE_KIND_COUNT, v->begin, v->until);
  for (int32_t rank = 0; rank < v->n_ranks; rank++) {
    char *line = picture + (size_t)rank * (REPORT_PICTURE_COLUMNS + 1);
    columns_clear(&columns);
    const int32_t *offset = &v->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
    for (int32_t k = offset[0]; k < offset[1]; k++) {
      const struct node_row *node = &v->rows[v->stream_nodes[k]];
      if (node->kind >= 0 && node->kind < NODE_KIND_COUNT)
        columns_add(&columns, node->start_s, node->end_s, find_class(node, chunks));
    }
    columns_choose(&columns, chosen);
    for (int c = 0; c < REPORT_PICTURE_COLUMNS; c++) line[c] = get_letter(chosen[c]);
  }
  columns_fini(&columns);
  mem_free(chunks);
  return picture;
}
