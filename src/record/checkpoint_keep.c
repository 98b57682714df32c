/* Decides which checkpoints stay. Others are removed from the list first and from the disk after that, so that every
 * listed file is there. A file that is between the two is named in the index, and whoever is killed there leaves the
 * rest to the next life.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/checkpoint_impl.h"

void checkpoint_keep_drop(struct checkpoint_index *index, int64_t at) {
  checkpoint_index_add_loose(index, index->entries[at].name);
  index->n--;
  memmove(&index->entries[at], &index->entries[at + 1], sizeof *index->entries * (size_t)(index->n - at));
}

void checkpoint_keep_newest(struct checkpoint_index *index, struct checkpoint_keep keep) {
  for (int64_t i = 0; i < index->n; i++)
    if (keep.every > 0 && index->entries[i].step > 0 && index->entries[i].step % keep.every == 0)
      index->entries[i].is_kept = true;
  if (keep.newest <= 0) return;
  for (int64_t i = index->n - keep.newest - 1; i >= 0; i--)
    if (!index->entries[i].is_kept && !index->entries[i].is_best) checkpoint_keep_drop(index, i);
}

int checkpoint_keep_clean(const char *folder, struct checkpoint_index *index) {
  int64_t n = index->n_loose;
  index->n_loose = 0;
  for (int64_t i = 0; i < n; i++) {
    if (checkpoint_index_find(index, index->loose[i])) continue;
    char *path = mem_format("%s/%s", folder, index->loose[i]);
    if (unlink(path) && errno != ENOENT) {
      log_warn("cannot remove the old checkpoint %s: %s", path, limits_reason(errno));
      memmove(index->loose[index->n_loose++], index->loose[i], sizeof *index->loose);
    }
    mem_free(path);
  }
  return index->n_loose < n ? checkpoint_index_write(folder, index) : STATUS_OK;
}

/* ---- the best ---- */

double checkpoint_get_best(const char *folder) {
  struct checkpoint_index index;
  double best = INFINITY;
  if (checkpoint_index_read(folder, &index)) log_warn("%s", error_text());
  for (int64_t i = 0; i < index.n; i++)
    if (index.entries[i].is_best && index.entries[i].best_loss < best) best = index.entries[i].best_loss;
  checkpoint_index_fini(&index);
  return best;
}

int checkpoint_set_best(const char *folder, int64_t step, double loss, struct checkpoint_keep keep) {
  struct checkpoint_index index;
  bool found = false;
  int status = checkpoint_index_read(folder, &index);
  for (int64_t i = 0; i < index.n; i++) {
    index.entries[i].is_best = index.entries[i].step == step;
    index.entries[i].best_loss = loss;
    found |= index.entries[i].is_best;
  }
  if (!status && !found)
    status = error_raise(STATUS_FAILED, "%s/index.txt has no checkpoint of step %" PRId64 " any more", folder, step);
  checkpoint_keep_newest(&index, keep);
  if (!status) status = checkpoint_index_write(folder, &index);
  if (!status) status = checkpoint_keep_clean(folder, &index);
  checkpoint_index_fini(&index);
  return status;
}
