#include "run/evaluate.h"

#include <math.h>

#include "base/error.h"
#include "exec/trainer.h"

int evaluate_rows_all(const struct evaluation *e, struct evaluation_sum *sum) {
  int64_t n_batches = (e->n_rows + e->batch_rows - 1) / e->batch_rows;
  struct batch batch = {0};
  int status = STATUS_OK;
  *sum = (struct evaluation_sum){.is_whole = true};
  for (int64_t b = 0; b < n_batches && !status; b++) {
    int64_t first = b * e->batch_rows, left = e->n_rows - first;
    double part = 0;
    if (e->go_on_all && !e->go_on_all(e->context, b, n_batches)) {
      sum->is_whole = false;
      break;
    }
    status = trainer_build_batch(e->trainer, e->dataset, first, left < e->batch_rows ? left : e->batch_rows,
                                 e->micro_rows, &batch);
    if (!status) status = trainer_evaluate(e->trainer, &batch, e->step, &part);
    sum->loss += part;
    sum->rows += batch.rows;
    sum->tokens += batch.tokens;
    sum->labels += batch.labels;
  }
  batch_fini(&batch);
  return status;
}

double evaluation_get_mean(const struct evaluation_sum *sum) {
  return sum->labels ? sum->loss / (double)sum->labels : NAN;
}
