/* Shared by the parts of the executor: exec.c (nodes and streams), exec_memory.c (buffers), exec_norm.c (gradient
 * norm). */
#ifndef PENSTOCK_EXEC_EXEC_INTERNAL_H
#define PENSTOCK_EXEC_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "exec/stage_pass.h"

struct comm_request;

enum { EXEC_MESSAGE_PARTS = DAG_BLOCK_PARTS };

/* A stream of this rank: its nodes in order, the next one to begin, and the message under way. */
struct exec_stream {
  const int32_t *nodes;
  int32_t n, next;
  int32_t active;                                    /* -1: none */
  struct comm_request *requests[EXEC_MESSAGE_PARTS]; /* of the message's parts; NULL: done, or none */
};

struct exec;
struct exec_timed;

/* How nodes are carried out: by work (exec.c), or by keeping time (exec_timed.c). The order of nodes is the same. */
struct exec_way {
  void (*open)(struct exec *x);              /* before the first node; collective */
  void (*close)(struct exec *x, int status); /* frees; collective when the status is OK */
  void (*begin_message)(struct exec *x, struct exec_stream *s, int32_t id);
  bool (*test_message)(struct exec *x, struct exec_stream *s); /* true: s->active is complete */
  void (*compute)(struct exec *x, int32_t id);
  void (*norm)(struct exec *x, int32_t id); /* collective */
  /* A round of waiting, as comm_back_off. */
  void (*wait)(struct exec *x, int peer, int64_t fruitless, const char *what);
};

struct exec {
  const struct exec_way *way;
  struct exec_timed *timed; /* of exec_timed.c */
  const struct exec_step *step;
  struct exec_result *result;
  int status;                   /* of the memory that nodes were given; of a timed rank that is to stop */
  int32_t rank, first, n_nodes; /* this rank's nodes are first .. first + n_nodes - 1 */
  int32_t n_done;
  double op_begin;      /* clock when the op under way began */
  bool rebuilds;        /* it is one of an R */
  int32_t last_compute; /* the rank's last compute node once it has run, else -1 */
  int32_t opened;       /* the last compute node that has its memory, -1: none yet */
  bool *done;           /* [n_nodes] */
  struct exec_stream streams[STREAM_COUNT];
  struct trace_span copied[STREAM_COUNT]; /* when the last copy of a stream really ran */
  /* Buffers of this rank: rows of the graph's table and where they lie. */
  const struct dag_buffer *buffers;
  int64_t n_buffers, next_buffer;
  char **memory;          /* [n_buffers] of the device or the host */
  int64_t *places;        /* [n_buffers] in the spill file, -1: none; NULL without one */
  int64_t *find;          /* [n_stages][n_micro][BUFFER_KIND_COUNT] latest buffer, -1: none */
  int64_t *release_first; /* [n_nodes] first buffer that a node frees, -1: none */
  int64_t *release_next;  /* [n_buffers] the next one */
  /* Layers' sums of squares, gathered for the norm. */
  struct norm_part {
    int32_t layer, bad_tensor;
    double sum;
  } * parts;
  int32_t n_parts;
};

void exec_init(struct exec *x, const struct exec_step *step, struct exec_result *result);
void exec_fini(struct exec *x);

/* exec.c. The tag of a message, and of a receiver's word that it is ready for it. */
int exec_make_tag(const struct dag_node *node);
int exec_make_post_tag(const struct dag_node *node);
/* Begins a send as the step asks for: synchronous, or as MPI likes. */
struct comm_request *exec_send_begin(const struct exec *x, int peer, int tag, const void *data, int64_t bytes);
/* Ends and begins what may on the network streams; true when something happened. */
bool exec_advance_network(struct exec *x);

/* exec_memory.c. Opening a compute node allocates all that is charged to it, receives for the next node included; it is
 * done as soon as the node before has ended and the blocks that the node waits for are gone, so that receives can be
 * posted. Freeing after a node leaves what a block has not yet taken away; that goes with exec_free_moved, when the
 * block has gone. */
void exec_memory_init(struct exec *x);
void exec_memory_fini(struct exec *x);
int exec_open_node(struct exec *x, int32_t node);
void exec_free_buffers(struct exec *x, int32_t node);
void exec_free_moved(struct exec *x, int32_t mover);
void *exec_find_buffer(const struct exec *x, enum buffer_kind kind, int32_t stage, int32_t micro);
/* All buffers that a compute node of a stage and micro-batch works on; those it shares with neighbouring stages on this
 * rank included. */
void exec_find_buffers(const struct exec *x, int32_t stage, int32_t micro, char *buffers[BUFFER_KIND_COUNT]);

/* The place of a block in the spill file. */
int64_t exec_find_place(const struct exec *x, const struct dag_node *node);

/* exec_copy.c. Begins EV, LD, SW or SR; asks whether it has ended, and notes in x->copied when it ran. A block that
 * cannot be written or is not what was written sets x->status. */
void exec_begin_copy(struct exec *x, int32_t id);
bool exec_test_copy(struct exec *x, int32_t id);

/* exec_norm.c. Completes a layer's gradient and records its sum of squares; notes what is not finite. */
void exec_measure_layer(struct exec *x, int32_t layer);
/* Gathers all layers' sums and the loss: every rank has the norm, the loss and the first bad tensor. Collective. */
void exec_gather_norm(struct exec *x);

#endif
