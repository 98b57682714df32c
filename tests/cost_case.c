#include "cost_case.h"

struct cost *make_cost_case(const char *yaml, const struct model *model, int32_t n_ranks) {
  struct params params = parse_good(yaml, NULL);
  struct cost *cost = NULL;
  char *notes = NULL;
  int status = cost_create(&params, model, n_ranks, &cost, &notes);
  T_CHECK(!status, "%s: %s", yaml, error_text());
  if (status) exit(1);
  mem_free(notes);
  params_fini(&params);
  return cost;
}

double count_stage_seconds(const struct cost *cost, const struct model *model, int32_t rank, int32_t first, int32_t n,
                           struct micro_shape shape) {
  double sum = 0;
  int64_t n_body = 0;
  for (int32_t l = first; l < first + n; l++) n_body += model->layers[l].block >= 0;
  for (enum pass pass = 0; pass < PASS_COUNT; pass++)
    for (int32_t l = first; l < first + n; l++)
      sum += cost_get_layer(cost, rank, l, pass, shape) * cost_get_share_factor(cost, pass, n_body);
  return sum;
}
