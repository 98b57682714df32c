/* A plan as bytes. One walk over its lists counts, writes and reads, so that the three cannot differ. The bytes are in
 * the machine's own order: they go from rank to rank of one job, never into a file.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan.h"

enum { PACK_VERSION = 7 };
static const char pack_magic[8] = "penplan";

enum pack_mode { PACK_COUNT, PACK_WRITE, PACK_READ };

struct packer {
  enum pack_mode mode;
  uint8_t *data;
  size_t at, size;
  bool damaged; /* too few bytes, or a value that cannot be */
};

static void visit_bytes(struct packer *p, void *value, size_t bytes) {
  if (p->damaged || bytes == 0) return;
  if (p->mode != PACK_COUNT && bytes > p->size - p->at) {
    p->damaged = true;
    return;
  }
  if (p->mode == PACK_WRITE) memcpy(p->data + p->at, value, bytes);
  if (p->mode == PACK_READ) memcpy(value, p->data + p->at, bytes);
  p->at += bytes;
}

static void visit_bool(struct packer *p, bool *value) {
  uint8_t byte = *value;
  visit_bytes(p, &byte, 1);
  if (byte > 1) p->damaged = true;
  *value = byte == 1;
}

/* A name fills its array with zeros: what a longer name left behind it must not reach the hash. */
static void visit_name(struct packer *p, char *name, size_t size) {
  bool ended = false;
  for (size_t i = 0; i < size; i++) {
    char c = p->mode == PACK_READ || ended ? 0 : name[i];
    visit_bytes(p, &c, 1);
    if (ended && c) p->damaged = true;
    ended = ended || !c;
    if (p->mode == PACK_READ) name[i] = c;
  }
}

static void visit_heading(struct packer *p, char magic[sizeof pack_magic], int32_t *version) {
  visit_bytes(p, magic, sizeof pack_magic);
  visit_bytes(p, version, sizeof *version);
}

/* All but the arrays. */
static void visit_numbers(struct packer *packer, struct plan *p) {
#define X(size, since) visit_bytes(packer, &p->size, sizeof p->size);
  PLAN_SIZES(X)
#undef X
#define X(flag, since) visit_bool(packer, &p->flag);
  PLAN_FLAGS(X)
#undef X
  visit_name(packer, p->planner, sizeof p->planner);
  visit_bytes(packer, &p->hash, sizeof p->hash);
}

static void visit_arrays(struct packer *packer, struct plan *p) {
#define X(member, count, fields, since) visit_bytes(packer, p->member, sizeof *p->member *(size_t)(count));
  PLAN_ARRAYS(X)
#undef X
}

void *plan_pack(const struct plan *plan, size_t *bytes) {
  struct plan view = *plan; /* the walk takes a plan it may write to; it does not when it counts or writes */
  struct packer p = {.mode = PACK_COUNT};
  for (;;) {
    char magic[sizeof pack_magic];
    memcpy(magic, pack_magic, sizeof magic);
    int32_t version = PACK_VERSION;
    visit_heading(&p, magic, &version);
    visit_numbers(&p, &view);
    visit_arrays(&p, &view);
    if (p.mode == PACK_WRITE) break;
    p = (struct packer){.mode = PACK_WRITE, .data = mem_alloc(p.at), .size = p.at};
  }
  *bytes = p.size;
  return p.data;
}

int plan_check_sizes(const struct plan *plan) {
#define X(size, since)                                                                                                 \
  if (plan->size < 0) return error_raise(STATUS_FAILED, "%s is below zero", #size);
  PLAN_SIZES(X)
#undef X
  if (plan->n_parts && plan->n_parts != plan->n_actions)
    return error_raise(STATUS_FAILED, "n_parts is %lld, n_actions %lld: they must be equal, or n_parts 0",
                       (long long)plan->n_parts, (long long)plan->n_actions);
  return STATUS_OK;
}

int plan_check_offsets(const struct plan *plan) {
  bool right = plan->replica_offset[0] == 0 && plan->replica_offset[plan->n_stages] == plan->n_replicas &&
               plan->order_offset[0] == 0 && plan->order_offset[plan->n_ranks] == plan->n_actions;
  for (int32_t s = 0; s < plan->n_stages && right; s++) right = plan->replica_offset[s] <= plan->replica_offset[s + 1];
  for (int32_t r = 0; r < plan->n_ranks && right; r++) right = plan->order_offset[r] <= plan->order_offset[r + 1];
  return right ? STATUS_OK : error_raise(STATUS_FAILED, "its offsets contradict its sizes");
}

/* Sizes that cannot be those of the bytes that follow are refused before anything is allocated for them. */
static int check_room(const struct packer *packer, const struct plan *p) {
  int status = plan_check_sizes(p);
  if (status) return status;
  size_t left = packer->size - packer->at;
#define X(member, count, fields, since)                                                                                \
  if ((size_t)(count) > left / sizeof *p->member)                                                                      \
    return error_raise(STATUS_FAILED, "cut short at %zu bytes", packer->size);                                         \
  left -= (size_t)(count) * sizeof *p->member;
  PLAN_ARRAYS(X)
#undef X
  return left ? error_raise(STATUS_FAILED, "%zu bytes too many", left) : STATUS_OK;
}

/* The hash that the bytes carry against the hash of what was read. */
static int check_hash(struct plan *plan) {
  uint64_t hash = plan->hash;
  if (!hash) return STATUS_OK;
  plan_freeze(plan);
  if (plan->hash == hash) return STATUS_OK;
  return error_raise(STATUS_FAILED, "hash %016llx, should be %016llx", (unsigned long long)plan->hash,
                     (unsigned long long)hash);
}

static int read_numbers(struct packer *p, struct plan *plan) {
  char magic[sizeof pack_magic] = "";
  int32_t version = 0;
  visit_heading(p, magic, &version);
  if (memcmp(magic, pack_magic, sizeof magic)) return error_raise(STATUS_FAILED, "not a plan");
  if (version != PACK_VERSION)
    return error_raise(STATUS_FAILED, "version %d, this program reads %d", (int)version, PACK_VERSION);
  visit_numbers(p, plan);
  if (p->damaged || !memchr(plan->planner, 0, sizeof plan->planner))
    return error_raise(STATUS_FAILED, "damaged, or cut short at %zu bytes", p->size);
  return check_room(p, plan);
}

int plan_unpack(const void *data, size_t bytes, struct plan **plan) {
  struct packer p = {.mode = PACK_READ, .data = (uint8_t *)(uintptr_t)data, .size = bytes};
  struct plan *made = MEM_NEW(struct plan, 1);
  *plan = NULL;
  int status = read_numbers(&p, made);
  if (!status) {
    plan_allocate(made);
    visit_arrays(&p, made);
    status = plan_check_offsets(made);
  }
  if (!status) status = check_hash(made);
  if (status) {
    plan_destroy(&made);
    return error_wrap("packed plan");
  }
  *plan = made;
  return STATUS_OK;
}
