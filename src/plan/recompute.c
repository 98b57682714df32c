#include "plan/recompute.h"

#include <string.h>

#include "base/mem.h"

/* True when the op writes something that is kept for the backward: only that can be discarded. */
static bool keeps(const struct layer *layer, const struct op *op) {
  int acts[2] = {op->out, op->stats};
  for (int i = 0; i < 2; i++)
    if (acts[i] >= 0 && (layer->acts[acts[i]].life == ACT_KEEP_INPUT || layer->acts[acts[i]].life == ACT_KEEP_WEIGHT))
      return true;
  return false;
}

static bool is_in_set(const struct layer *layer, const struct op *op, enum params_recompute set) {
  switch (set) {
  case PARAMS_RECOMPUTE_CMB: return op->cheap;
  case PARAMS_RECOMPUTE_ATTENTION: return op->kind == OP_ATTENTION;
  case PARAMS_RECOMPUTE_MLP: return layer->kind == LAYER_MLP;
  case PARAMS_RECOMPUTE_AUTO:
  case PARAMS_RECOMPUTE_FULL: return layer->kind != LAYER_EMBED && layer->kind != LAYER_HEAD;
  case PARAMS_RECOMPUTE_NONE:
  case PARAMS_recompute_COUNT: break;
  }
  return false;
}

uint32_t recompute_get_ops(const struct layer *layer, enum params_recompute set) {
  uint32_t ops = 0;
  bool body = layer->kind != LAYER_HEAD; /* the head's backward needs little, and makes its gradients in the forward */
  for (int o = 0; o < layer->n_ops && body; o++)
    if (keeps(layer, &layer->ops[o]) && is_in_set(layer, &layer->ops[o], set)) ops |= (uint32_t)1 << o;
  return ops;
}

uint32_t recompute_get_named_ops(const struct layer *layer, const char *name) {
  uint32_t ops = 0;
  for (int o = 0; o < layer->n_ops && layer->kind != LAYER_HEAD; o++)
    if (keeps(layer, &layer->ops[o]) && !strcmp(layer->ops[o].name, name)) ops |= (uint32_t)1 << o;
  return ops;
}

static bool is_listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n])) return true;
  return false;
}

/* Adds the names of these ops to a list, each once; frees the list. */
static char *add_names(char *list, const struct layer *layer, uint32_t ops) {
  for (int o = 0; o < layer->n_ops; o++) {
    if (!(ops >> o & 1) || is_listed(list, layer->ops[o].name)) continue;
    char *longer = mem_format("%s%s%s", list, *list ? ", " : "", layer->ops[o].name);
    mem_free(list);
    list = longer;
  }
  return list;
}

char *recompute_list_ops(const struct model *model) {
  char *list = mem_strdup("");
  for (int32_t l = 0; l < model->n_layers; l++) {
    const struct layer *layer = &model->layers[l];
    for (int o = 0; o < layer->n_ops; o++)
      list = add_names(list, layer, recompute_get_named_ops(layer, layer->ops[o].name));
  }
  return list;
}

/* Returns true when all layers of a stage discard exactly the ops of a set. */
static bool is_set(const struct plan *plan, const struct model *model, int32_t stage, enum params_recompute set) {
  const struct plan_stage *s = &plan->stages[stage];
  for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++)
    if (plan_get_discarded(plan, l, 0) != recompute_get_ops(&model->layers[l], set)) return false;
  return true;
}

char *recompute_describe(const struct plan *plan, const struct model *model, int32_t stage) {
  const struct plan_stage *s = &plan->stages[stage];
  char *list = mem_strdup("");
  for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++)
    list = add_names(list, &model->layers[l], plan_get_discarded(plan, l, 0));
  /* The larger sets first: on a stage without attention, or without feed-forward, sets coincide. */
  for (int set = PARAMS_recompute_COUNT - 1; *list && set > PARAMS_RECOMPUTE_NONE; set--)
    if (is_set(plan, model, stage, (enum params_recompute)set)) {
      mem_free(list);
      return mem_strdup(params_name_choice(PARAM_pipeline_recompute, set));
    }
  return list;
}

static void put_rows(struct plan *plan, const uint32_t *ops, const int32_t *n_micro) {
  int32_t n = 0;
  plan_reserve_recompute(plan, plan->n_layers);
  for (int32_t s = 0; s < plan->n_stages; s++)
    for (int32_t l = plan->stages[s].first_layer; l < plan->stages[s].first_layer + plan->stages[s].n_layers; l++)
      if (n_micro[s] > 0 && ops[l]) plan->recompute[n++] = (struct plan_recompute){l, 0, n_micro[s] - 1, ops[l]};
  plan->n_recompute = n;
}

/* Where each action of the orders is once there are more of them: its place in its rank's order, and that of the R put
 * before it, else its own. [actions], in the places of the old orders. */
struct new_places {
  int32_t *place, *front;
};

/* Moves that happen at the end of an action keep their action; those at its start now happen at the start of its R. */
static void shift_moves(struct plan *plan, const struct new_places *new) {
  for (int32_t i = 0; i < plan->n_moves; i++) {
    struct plan_move *m = &plan->moves[i];
    int64_t own = plan->order_offset[plan_find_rank(plan, m->stage, m->micro)];
    m->out_start = new->place[own + m->out_start];
    m->out_end = new->place[own + m->out_end];
    m->in_start = new->front[own + m->in_start];
    if (m->tier == PLAN_TIER_DISK) {
      m->disk_start = new->place[own + m->disk_start];
      m->disk_end = new->front[own + m->disk_end];
    }
    if (m->tier != PLAN_TIER_RANK) continue;
    m->peer_start = new->front[plan->order_offset[m->peer] + m->peer_start];
    m->peer_end = new->place[plan->order_offset[m->peer] + m->peer_end];
  }
}

/* The orders with an R before each backward of the stages and micro-batches that recompute; moves keep their actions.
 */
static void put_actions(struct plan *plan, const int32_t *n_micro) {
  bool *recomputes = MEM_NEW(bool, plan->n_stages);
  int64_t n = plan->n_actions, at = 0;
  int64_t *offset = MEM_NEW(int64_t, plan->n_ranks + 1);
  struct new_places new = {MEM_NEW(int32_t, n), MEM_NEW(int32_t, n)};
  for (int32_t s = 0; s < plan->n_stages; s++) recomputes[s] = n_micro[s] > 0 && plan_recomputes(plan, s, 0);
  struct plan_action *order = MEM_NEW(struct plan_action, 2 * n);
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    offset[r] = at;
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++) {
      const struct plan_action *a = &plan->order[k];
      new.front[k] = (int32_t)(at - offset[r]);
      if (recomputes[a->stage] && a->micro < n_micro[a->stage] && (a->kind == NODE_B || a->kind == NODE_I))
        order[at++] = (struct plan_action){.kind = NODE_R, .stage = a->stage, .micro = a->micro};
      new.place[k] = (int32_t)(at - offset[r]);
      order[at++] = *a;
    }
  }
  offset[plan->n_ranks] = at;
  shift_moves(plan, &new);
  mem_free(new.place);
  mem_free(new.front);
  mem_free(recomputes);
  mem_free(plan->order);
  mem_free(plan->order_offset);
  plan->order = order;
  plan->order_offset = offset;
  plan->n_actions = at;
}

void recompute_put_first(struct plan *plan, const uint32_t *ops, const int32_t *n_micro) {
  put_rows(plan, ops, n_micro);
  if (plan->n_recompute) put_actions(plan, n_micro);
}

void recompute_put(struct plan *plan, const uint32_t *ops, const bool *stages) {
  int32_t *n_micro = MEM_NEW(int32_t, plan->n_stages);
  for (int32_t s = 0; s < plan->n_stages; s++) n_micro[s] = stages[s] ? plan->n_micro : 0;
  recompute_put_first(plan, ops, n_micro);
  mem_free(n_micro);
}

/* ---- parts ---- */

int32_t recompute_find_part(const struct model *model, int32_t first, int32_t end) {
  int32_t l = end - 1;
  while (l > first && model->layers[l].block < 0) l--; /* the head goes with the block before it */
  int32_t block = model->layers[l].block;
  while (l > first && (model->layers[l - 1].block == block || model->layers[l - 1].block < 0)) l--;
  return l;
}

static bool is_cut(const struct plan *plan, const bool *stages, const struct plan_action *a) {
  bool can = a->kind == NODE_R || a->kind == NODE_B;
  return can && stages[a->stage] && plan_recomputes(plan, a->stage, a->micro);
}

/* The orders being made. */
struct cutting {
  struct plan_action *order;
  struct plan_part *parts;
  int64_t n;
};

static void add_part(struct cutting *c, struct plan_action action, int32_t first, int32_t end) {
  c->order[c->n] = action;
  if (end > first) c->parts[c->n] = (struct plan_part){first, end - first};
  c->n++;
}

/* Adds a backward part by part, each after its recomputation. */
static void add_parts(struct cutting *c, const struct plan *plan, const struct model *model,
                      const struct plan_action *a) {
  const struct plan_stage *stage = &plan->stages[a->stage];
  for (int32_t end = stage->first_layer + stage->n_layers, first; end > stage->first_layer; end = first) {
    first = recompute_find_part(model, stage->first_layer, end);
    bool any = false;
    for (int32_t l = first; l < end; l++) any = any || plan_get_discarded(plan, l, a->micro);
    if (any) add_part(c, (struct plan_action){NODE_R, a->stage, a->micro}, first, end);
    add_part(c, *a, first, end);
  }
}

/* Backwards that are split do not recompute in parts: what I and W keep between them would have to be as well. */
static void leave_split(const struct plan *plan, bool *cut) {
  for (int64_t k = 0; k < plan->n_actions; k++)
    if (plan->order[k].kind == NODE_W) cut[plan->order[k].stage] = false;
}

void recompute_cut(struct plan *plan, const struct model *model, const bool *stages) {
  int64_t n = plan->n_actions, most = n, *offset = MEM_NEW(int64_t, plan->n_ranks + 1);
  bool *cut = MEM_NEW(bool, plan->n_stages);
  for (int32_t s = 0; s < plan->n_stages; s++) cut[s] = stages[s];
  leave_split(plan, cut);
  for (int64_t k = 0; k < n; k++)
    if (is_cut(plan, cut, &plan->order[k])) most += 2 * plan->stages[plan->order[k].stage].n_layers;
  struct cutting c = {MEM_NEW(struct plan_action, most), MEM_NEW(struct plan_part, most), 0};
  struct new_places new = {MEM_NEW(int32_t, n), MEM_NEW(int32_t, n)};
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    offset[r] = c.n;
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++) {
      const struct plan_action *a = &plan->order[k];
      new.front[k] = (int32_t)(c.n - offset[r]);
      if (!is_cut(plan, cut, a))
        add_part(&c, *a, 0, 0);
      else if (a->kind == NODE_B)
        add_parts(&c, plan, model, a);
      new.place[k] = (int32_t)(c.n - offset[r]) - (c.n > offset[r]);
    }
  }
  offset[plan->n_ranks] = c.n;
  shift_moves(plan, &new);
  mem_free(new.place);
  mem_free(new.front);
  mem_free(cut);
  mem_free(plan->order);
  mem_free(plan->order_offset);
  mem_free(plan->parts);
  plan->order = c.order;
  plan->order_offset = offset;
  plan->parts = c.parts;
  plan->n_actions = plan->n_parts = c.n;
}
