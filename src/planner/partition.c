/* Cuts the layers into stages: by cost, even, or as the deck's list says. Cuts are counted in half blocks of the
 * configuration, so that they may fall between the mixer and the feed-forward of a block.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "planner/partition_auto.h"
#include "planner/planner.h"

enum { COUNT_TEXT = 64 };

static int32_t count_blocks(const struct model *model) {
  int32_t n = 0;
  for (int32_t l = 0; l < model->n_layers; l++)
    if (model->layers[l].block >= n) n = model->layers[l].block + 1;
  return n;
}

/* The layer at which `halves` half blocks have passed, from layer `first` on, the cut before; the model's end counts
 * the head's side of the last block. */
static int find_cut(const struct model *model, int64_t halves, int32_t first, int32_t *layer) {
  int32_t block = (int32_t)(halves / 2), l = first;
  while (l < model->n_layers && (model->layers[l].block < block && (l == 0 || model->layers[l].block >= 0))) l++;
  if (halves % 2) {
    l++;
    if (l >= model->n_layers || model->layers[l].block != block)
      return error_raise(STATUS_MISTAKE,
                         "pipeline.partition cuts block %d in two, but it is a single layer: give whole blocks there",
                         (int)block);
  }
  *layer = l;
  return STATUS_OK;
}

/* sizes[] in half blocks -> stages[]: embedding with the first, head with the last. */
static int fill_stages(const struct plan_request *request, const int64_t *sizes, struct plan_stage *stages) {
  int64_t halves = 0;
  int32_t n_stages = planner_count_stages(request), first = 0;
  for (int32_t s = 0; s < n_stages; s++) {
    int32_t end = request->model->n_layers;
    halves += sizes[s];
    int status = s < n_stages - 1 ? find_cut(request->model, halves, first, &end) : STATUS_OK;
    if (status) return status;
    stages[s] = (struct plan_stage){first, end - first};
    first = end;
  }
  return STATUS_OK;
}

/* "pipeline.stages 4 x pipeline.chunks 2" in the caller's buffer. */
static const char *describe_count(const struct plan_request *request, char *text, size_t size) {
  int32_t chunks = planner_count_chunks(request);
  if (chunks == 1)
    snprintf(text, size, "pipeline.stages %d", (int)request->n_stages);
  else
    snprintf(text, size, "pipeline.stages %d x pipeline.chunks %d", (int)request->n_stages, (int)chunks);
  return text;
}

static int size_even(const struct plan_request *request, int32_t n_blocks, int64_t *sizes) {
  int32_t p = planner_count_stages(request);
  char count[COUNT_TEXT];
  if (p > n_blocks + 2)
    return error_raise(STATUS_MISTAKE,
                       "%s: a model of %d blocks can be cut into at most %d stages (one block each, and one "
                       "each for embedding and head)",
                       describe_count(request, count, sizeof count), (int)n_blocks, (int)n_blocks + 2);
  int32_t larger = n_blocks % p;
  for (int32_t s = 0; s < p; s++) sizes[s] = 2 * (int64_t)(n_blocks / p + (s >= p - larger));
  if (p == n_blocks + 2) { /* only the first and the last stage have something to hold without a block */
    sizes[1] = n_blocks > 0 ? 2 : 0;
    sizes[p - 1] = 0;
  }
  return STATUS_OK;
}

static int read_size(const struct plan_request *request, int32_t s, int64_t *halves) {
  int32_t last = planner_count_stages(request) - 1;
  double value = request->partition.blocks[s], doubled = 2 * value;
  if (!(value >= 0 && doubled <= 1e9) || doubled != floor(doubled))
    return error_raise(STATUS_MISTAKE,
                       "pipeline.partition: entry %d is %g, allowed are 0, 0.5, 1, 1.5, ... (blocks of the model)",
                       (int)s + 1, value);
  if (value == 0 && s != 0 && s != last)
    return error_raise(
        STATUS_MISTAKE,
        "pipeline.partition: entry %d is 0, but only the first and the last stage may be without a block", (int)s + 1);
  *halves = (int64_t)doubled;
  return STATUS_OK;
}

static int size_list(const struct plan_request *request, int32_t n_blocks, int64_t *sizes) {
  int32_t n_stages = planner_count_stages(request);
  if (request->partition.n != n_stages && planner_count_chunks(request) > 1)
    return error_raise(STATUS_MISTAKE,
                       "pipeline.partition has %d entries, pipeline.stages %d x pipeline.chunks %d are %d stages: give "
                       "one entry a stage",
                       (int)request->partition.n, (int)request->n_stages, (int)request->n_chunks, (int)n_stages);
  if (request->partition.n != n_stages)
    return error_raise(STATUS_MISTAKE,
                       "pipeline.partition has %d entries, pipeline.stages is %d: give one entry a stage",
                       (int)request->partition.n, (int)request->n_stages);
  int64_t sum = 0;
  for (int32_t s = 0; s < n_stages; s++) {
    int status = read_size(request, s, &sizes[s]);
    if (status) return status;
    sum += sizes[s];
  }
  if (sum != 2 * (int64_t)n_blocks)
    return error_raise(STATUS_MISTAKE,
                       "pipeline.partition: sum %g, model has %d: the entries must add up to the model's blocks",
                       (double)sum / 2, (int)n_blocks);
  return STATUS_OK;
}

int partition_make(const struct plan_request *request, struct plan_stage *stages) {
  int32_t n_blocks = count_blocks(request->model);
  if (request->n_stages < 1)
    return error_raise(STATUS_MISTAKE, "pipeline.stages %d: must be at least 1", (int)request->n_stages);
  if (request->partition.kind == PARAMS_CUT_AUTO && request->cost) return partition_make_auto(request, stages);
  int64_t *sizes = MEM_NEW(int64_t, planner_count_stages(request));
  int status = request->partition.kind == PARAMS_CUT_LIST ? size_list(request, n_blocks, sizes)
                                                          : size_even(request, n_blocks, sizes);
  if (!status) status = fill_stages(request, sizes, stages);
  mem_free(sizes);
  return status;
}
