/* The arithmetic on the CPU, one operation a file (kernels/<op>.c).
 *
 * Contract of all of them
 * - float32, row-major, dense unless a leading dimension ("ld") is given. "rows" counts tokens of a micro-batch
 *   (rows x padded length). Sizes are any positive number; no alignment is required of pointers beyond 4 bytes
 * (16-float aligned ones are faster).
 * - Bit-equal for any number of threads: work is cut into tasks by shape alone; every output element is computed by one
 *   task in one fixed order; vector tails go through the vector code (masked or padded), so that an element's bits
 * never depend on its place in a tile. Reductions over rows use fixed blocks of rows whose partial sums are added in
 * block order.
 * - "+=" functions accumulate into their output, the others overwrite it. Input and output may be the same array only
 *   where it says so.
 * - No allocation, no failure, no global state except the library's; scratch comes from the caller.
 */
#ifndef PENSTOCK_KERNELS_H
#define PENSTOCK_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* ---- matmul.c: oneDNN's (else CBLAS's) sgemm, single-threaded calls on tiles cut along M or N by shape alone ---- */

/* Called once a process before any matmul: sets the library's own threads to 1 (for the calling thread). */
void matmul_init_cpu(void);
/* Name and version of the library, for the log; static text. */
const char *matmul_get_library(void);
/* True when the library's products keep data in the stack pointer on this CPU: no signal handler may run on the stack
 * of a thread that multiplies. */
bool matmul_moves_stack(void);
/* C[m,n] = op(A) op(B) + beta C, beta 0 or 1; op transposes where asked: A is [m,k] (or [k,m] when trans_a). With beta
 * 0 C need not be initialised. */
void matmul_cpu(struct pool *pool, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
/* y[rows,n] = residual[rows,n] (0 where NULL) + bias[n] (0 where NULL): what a product is then added to. */
void matmul_prepare_cpu(struct pool *pool, int64_t rows, int64_t n, const float *residual, const float *bias, float *y);
/* d_bias[n] += column sums of d_y[rows,n]. */
void matmul_bias_weight_cpu(struct pool *pool, int64_t rows, int64_t n, const float *d_y, float *d_bias);

/* ---- norm.c: layer norm (mean != NULL) and RMS norm (mean == NULL) over the last dimension ---- */

/* y = (x - mean) * rstd * weight + bias; stats is [rows] rstd for RMS norm, [rows][2] (mean, rstd) for layer norm. */
void norm_forward_cpu(struct pool *pool, bool layer_norm, int64_t rows, int64_t width, float eps, const float *x,
                      const float *weight, const float *bias, float *y, float *stats);
/* d_x = residual (0 where NULL) + gradient through the norm. d_x may be residual itself. */
void norm_input_cpu(struct pool *pool, bool layer_norm, int64_t rows, int64_t width, const float *x,
                    const float *weight, const float *stats, const float *d_y, const float *residual, float *d_x);
/* d_weight[width] +=, d_bias[width] += (NULL for RMS norm). */
void norm_weight_cpu(struct pool *pool, bool layer_norm, int64_t rows, int64_t width, const float *x,
                     const float *stats, const float *d_y, float *d_weight, float *d_bias);

/* ---- rope.c: rotary positions on the first n_heads heads of each token's packed row, in place ---- */

/* x is [rows*length][ld]; heads of head_dim floats from its start; halves are rotated as in Llama by
 * position * theta^(-2i/head_dim), position = index in the row. `inverse` rotates back (the gradient). Angles are
 * computed in float64. */
void rope_cpu(struct pool *pool, int64_t rows, int64_t length, int64_t n_heads, int64_t head_dim, int64_t ld,
              double theta, bool inverse, float *x);

/* ---- attention.c: causal attention of the flash kind, grouped-query; scores are never stored ---- */

struct attention_shape {
  int64_t rows, length;                  /* micro-batch: rows of padded length */
  const int32_t *lengths;                /* [rows] real lengths; tokens at and beyond are padding */
  int64_t n_heads, n_kv_heads, head_dim; /* n_heads is a multiple of n_kv_heads */
};
/* qkv is [rows*length][(n_heads + 2 n_kv_heads) * head_dim]: queries, keys, values of a token in a row. Softmax of
 * q.k / sqrt(head_dim) over keys at or before the query in the same row. out is [rows*length][n_heads*head_dim], lse
 * [rows*length][n_heads] (log of the sum of exponentials). At padding both are 0. Blocks above the diagonal are
 * skipped. */
void attention_forward_cpu(struct pool *pool, const struct attention_shape *shape, const float *qkv, float *out,
                           float *lse);
/* d_qkv (overwritten, 0 at padding) from d_out. scratch is [rows*length][n_heads] floats. */
void attention_input_cpu(struct pool *pool, const struct attention_shape *shape, const float *qkv, const float *out,
                         const float *lse, const float *d_out, float *d_qkv, float *scratch);

/* ---- activation.c ---- */

enum activation { ACTIVATION_GELU_TANH, ACTIVATION_GELU, ACTIVATION_SILU, ACTIVATION_RELU, ACTIVATION_RELU2 };
/* y = f(u); both [rows][width]. */
void activation_forward_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                            float *y);
/* d_u = f'(u) d_y; d_u may be d_y. */
void activation_input_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                          const float *d_y, float *d_u);
/* Gated: u is [rows][2*width], gate then up; y[rows][width] = f(gate) * up. */
void activation_gated_forward_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                                  float *y);
/* d_u[rows][2*width] from d_y[rows][width]. */
void activation_gated_input_cpu(struct pool *pool, enum activation f, int64_t rows, int64_t width, const float *u,
                                const float *d_y, float *d_u);

/* ---- embed.c ---- */

/* y[t] = token_table[tokens[t]] + position_table[t % length] (NULL: none); tables have `width` columns. */
void embed_forward_cpu(struct pool *pool, int64_t rows, int64_t length, int64_t width, const int32_t *tokens,
                       const float *token_table, const float *position_table, float *y);
/* d_token_table += , d_position_table += (NULL: none), tokens in ascending order. Padding (t >= lengths[row]) is left
 * out. */
void embed_weight_cpu(struct pool *pool, int64_t rows, int64_t length, int64_t width, const int32_t *tokens,
                      const int32_t *lengths, const float *d_y, float *d_token_table, float *d_position_table);

/* ---- head.c: vocabulary projection and cross entropy, fused, in chunks of tokens ---- */

/* Floats of scratch that head_forward needs for this shape (a chunk of logits); a function of the shape alone. */
int64_t head_get_scratch(int64_t rows, int64_t vocab);
/* x[rows][width], table[vocab][width] (a token's row), labels[rows] (-100: none). Returns the sum over labelled tokens
 * of -log softmax(x table^T)[label], added in token order in float64 (from per-token float values). When d_x is not
 * NULL the gradients of scale * (that sum) are made as well: d_x[rows][width] overwritten (0 where there is no label),
 * d_table[vocab][width] +=. token_loss[rows] (NULL allowed) receives each token's loss, 0 where there is no label.
 * Chunks without any label are skipped. */
double head_forward_cpu(struct pool *pool, int64_t rows, int64_t width, int64_t vocab, const float *x,
                        const float *table, const int32_t *labels, float scale, float *d_x, float *d_table,
                        float *scratch, float *token_loss);

/* ---- optimizer.c ---- */

struct adamw {
  float lr, beta1, beta2, eps, weight_decay;
  float grad_scale; /* gradients are multiplied by it first (clipping); 1 is none */
  int64_t step;     /* from 1: bias correction 1 - beta^step, computed in float64 */
};
/* AdamW with decoupled decay on n parameters: w *= 1 - lr*weight_decay; w -= lr * mhat / (sqrt(vhat) + eps); sets g to
 * 0 in the same pass. */
void adamw_cpu(struct pool *pool, const struct adamw *p, int64_t n, float *w, float *g, float *m, float *v);
/* Sum of squares in float64, blocks of fixed size added in block order. Infinite or NaN when a value is. */
double sum_squares_cpu(struct pool *pool, int64_t n, const float *g);
/* y += x */
void add_cpu(struct pool *pool, int64_t n, const float *x, float *y);
/* x = value */
void fill_cpu(struct pool *pool, int64_t n, float value, float *x);

#endif
