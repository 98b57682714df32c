/* A plan as bytes. One walk over its fields counts, writes and reads, so that the three cannot differ. The bytes are in
 * the machine's own order: they go from rank to rank of one job, never into a file.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan.h"

enum { PACK_VERSION = 5 };
static const char pack_magic[8] = "penplan";

enum pack_mode { PACK_COUNT, PACK_WRITE, PACK_READ };

struct packer {
  enum pack_mode mode;
  uint8_t *data;
  size_t at, size;
  bool damaged; /* too few bytes, or a value that cannot be */
};

/* The sizes that precede the arrays. */
struct shape {
  int32_t n_layers, n_stages, n_ranks, n_micro, n_replicas, n_recompute, n_moves;
  int64_t n_actions;
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

static void visit_shape(struct packer *p, struct shape *shape) {
  visit_bytes(p, &shape->n_layers, sizeof shape->n_layers);
  visit_bytes(p, &shape->n_stages, sizeof shape->n_stages);
  visit_bytes(p, &shape->n_ranks, sizeof shape->n_ranks);
  visit_bytes(p, &shape->n_micro, sizeof shape->n_micro);
  visit_bytes(p, &shape->n_replicas, sizeof shape->n_replicas);
  visit_bytes(p, &shape->n_recompute, sizeof shape->n_recompute);
  visit_bytes(p, &shape->n_moves, sizeof shape->n_moves);
  visit_bytes(p, &shape->n_actions, sizeof shape->n_actions);
}

/* Actions go field by field: the struct has padding, which must not reach the hash. */
static void visit_actions(struct packer *p, struct plan_action *order, int64_t n_actions) {
  for (int64_t i = 0; i < n_actions && !p->damaged; i++) {
    visit_bytes(p, &order[i].kind, sizeof order[i].kind);
    visit_bytes(p, &order[i].stage, sizeof order[i].stage);
    visit_bytes(p, &order[i].micro, sizeof order[i].micro);
  }
}

/* The same of moves. */
static void visit_moves(struct packer *p, struct plan_move *moves, int32_t n_moves) {
  for (int32_t i = 0; i < n_moves && !p->damaged; i++) {
    struct plan_move *m = &moves[i];
    int32_t *numbers[] = {&m->stage, &m->micro,      &m->out_start, &m->out_end,    &m->in_start,
                          &m->peer,  &m->peer_start, &m->peer_end,  &m->disk_start, &m->disk_end};
    visit_bytes(p, &m->tier, sizeof m->tier);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) visit_bytes(p, numbers[k], sizeof *numbers[k]);
  }
}

static void visit_plan(struct packer *p, struct plan *plan, const struct shape *shape) {
  visit_name(p, plan->planner, sizeof plan->planner);
  visit_bool(p, &plan->forward_only);
  visit_bool(p, &plan->clip);
  visit_bool(p, &plan->free_order);
  visit_bytes(p, plan->stages, sizeof *plan->stages * (size_t)shape->n_stages);
  visit_bytes(p, plan->pace, sizeof *plan->pace * (size_t)shape->n_stages);
  visit_bytes(p, plan->replica_offset, sizeof *plan->replica_offset * ((size_t)shape->n_stages + 1));
  visit_bytes(p, plan->replica_rank, sizeof *plan->replica_rank * (size_t)shape->n_replicas);
  visit_bytes(p, plan->micro, sizeof *plan->micro * (size_t)shape->n_micro);
  visit_bytes(p, plan->order_offset, sizeof *plan->order_offset * ((size_t)shape->n_ranks + 1));
  visit_actions(p, plan->order, shape->n_actions);
  visit_bool(p, &plan->recompute_early);
  visit_bytes(p, plan->recompute, sizeof *plan->recompute * (size_t)shape->n_recompute);
  visit_moves(p, plan->moves, shape->n_moves);
  visit_bytes(p, plan->moved, sizeof *plan->moved * (size_t)(shape->n_moves ? shape->n_layers : 0));
  visit_bytes(p, plan->device_limit, sizeof *plan->device_limit * (size_t)shape->n_ranks);
  visit_bytes(p, plan->host_limit, sizeof *plan->host_limit * (size_t)shape->n_ranks);
  visit_bytes(p, plan->disk_limit, sizeof *plan->disk_limit * (size_t)shape->n_ranks);
  visit_bytes(p, &plan->hash, sizeof plan->hash);
}

static void visit_heading(struct packer *p, char magic[sizeof pack_magic], int32_t *version) {
  visit_bytes(p, magic, sizeof pack_magic);
  visit_bytes(p, version, sizeof *version);
}

void *plan_pack(const struct plan *plan, size_t *bytes) {
  struct plan view = *plan; /* the walk takes a plan it may write to; it does not when it counts or writes */
  struct shape shape = {plan->n_layers,
                        plan->n_stages,
                        plan->n_ranks,
                        plan->n_micro,
                        plan->replica_offset[plan->n_stages],
                        plan->n_recompute,
                        plan->n_moves,
                        plan->order_offset[plan->n_ranks]};
  struct packer p = {.mode = PACK_COUNT};
  for (;;) {
    char magic[sizeof pack_magic];
    memcpy(magic, pack_magic, sizeof magic);
    int32_t version = PACK_VERSION;
    visit_heading(&p, magic, &version);
    visit_shape(&p, &shape);
    visit_plan(&p, &view, &shape);
    if (p.mode == PACK_WRITE) break;
    p = (struct packer){.mode = PACK_WRITE, .data = mem_alloc(p.at), .size = p.at};
  }
  *bytes = p.size;
  return p.data;
}

/* Sizes that cannot be those of the bytes that follow are refused before anything is allocated for them. */
static int check_shape(const struct packer *p, const struct shape *shape) {
  size_t left = p->size - p->at;
  if (shape->n_layers < 0 || shape->n_stages < 0 || shape->n_ranks < 0 || shape->n_micro < 0 || shape->n_replicas < 0 ||
      shape->n_recompute < 0 || shape->n_moves < 0 || shape->n_actions < 0)
    return error_raise(STATUS_FAILED, "packed plan: a size below zero");
  const struct plan_action *order;
  size_t action = sizeof order->kind + sizeof order->stage + sizeof order->micro;
  size_t move = sizeof(uint8_t) + 10 * sizeof(int32_t);
  size_t limits[] = {left / sizeof(struct plan_stage),
                     left / sizeof(int64_t),
                     left / sizeof(struct plan_micro),
                     left / sizeof(int32_t),
                     left / sizeof(struct plan_recompute),
                     left / move,
                     left / action};
  int64_t counts[] = {shape->n_stages,    shape->n_ranks, shape->n_micro,  shape->n_replicas,
                      shape->n_recompute, shape->n_moves, shape->n_actions};
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
    if ((size_t)counts[i] > limits[i])
      return error_raise(STATUS_FAILED, "packed plan: cut short at %zu bytes", p->size);
  return STATUS_OK;
}

static int check_offsets(const struct plan *plan, const struct shape *shape) {
  bool right = plan->replica_offset[0] == 0 && plan->replica_offset[shape->n_stages] == shape->n_replicas &&
               plan->order_offset[0] == 0 && plan->order_offset[shape->n_ranks] == shape->n_actions &&
               memchr(plan->planner, 0, sizeof plan->planner);
  for (int32_t s = 0; s < shape->n_stages && right; s++) right = plan->replica_offset[s] <= plan->replica_offset[s + 1];
  for (int32_t r = 0; r < shape->n_ranks && right; r++) right = plan->order_offset[r] <= plan->order_offset[r + 1];
  return right ? STATUS_OK : error_raise(STATUS_FAILED, "packed plan: its offsets contradict its sizes");
}

/* The hash that the bytes carry against the hash of what was read. */
static int check_hash(struct plan *plan) {
  uint64_t hash = plan->hash;
  if (!hash) return STATUS_OK;
  plan_freeze(plan);
  if (plan->hash == hash) return STATUS_OK;
  return error_raise(STATUS_FAILED, "packed plan: hash %016llx, should be %016llx", (unsigned long long)plan->hash,
                     (unsigned long long)hash);
}

static int read_plan(struct packer *p, struct plan *plan, const struct shape *shape) {
  visit_plan(p, plan, shape);
  if (p->damaged) return error_raise(STATUS_FAILED, "packed plan: damaged, or cut short at %zu bytes", p->size);
  if (p->at != p->size) return error_raise(STATUS_FAILED, "packed plan: %zu bytes too many", p->size - p->at);
  int status = check_offsets(plan, shape);
  return status ? status : check_hash(plan);
}

int plan_unpack(const void *data, size_t bytes, struct plan **plan) {
  struct packer p = {.mode = PACK_READ, .data = (uint8_t *)(uintptr_t)data, .size = bytes};
  char magic[sizeof pack_magic] = "";
  int32_t version = 0;
  struct shape shape = {0};
  *plan = NULL;
  visit_heading(&p, magic, &version);
  if (memcmp(magic, pack_magic, sizeof magic)) return error_raise(STATUS_FAILED, "packed plan: not a plan");
  if (version != PACK_VERSION)
    return error_raise(STATUS_FAILED, "packed plan: version %d, this program reads %d", (int)version, PACK_VERSION);
  visit_shape(&p, &shape);
  if (p.damaged) return error_raise(STATUS_FAILED, "packed plan: cut short at %zu bytes", bytes);
  int status = check_shape(&p, &shape);
  if (status) return status;
  struct plan *made = plan_create(shape.n_layers, shape.n_stages, shape.n_ranks, shape.n_micro, shape.n_actions);
  plan_reserve_recompute(made, shape.n_recompute);
  plan_reserve_moves(made, shape.n_moves);
  made->replica_rank = mem_resize(made->replica_rank, sizeof(int32_t) * (size_t)shape.n_replicas);
  status = read_plan(&p, made, &shape);
  if (status)
    plan_destroy(&made);
  else
    *plan = made;
  return status;
}
