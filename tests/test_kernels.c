/* Every kernel but attention against plain float64 code, which is itself held against finite differences where it is a
 * gradient. The tolerance of a kernel is relative to the size of its results: float32 rounding, times the length of the
 * sums that it forms.
 */
#include "kernel_check.h"

static const struct {
  double matmul, bias, norm, norm_weight, rope, activation, embed, head, adamw;
} tolerance = {.matmul = 3e-6,
               .bias = 1e-6,
               .norm = 2e-6,
               .norm_weight = 3e-6,
               .rope = 5e-7,
               .activation = 1e-6,
               .embed = 5e-7,
               .head = 4e-6,
               .adamw = 2e-6};

/* Sizes of rows and columns that leave every kind of tail. */
static const int64_t odd[] = {1, 2, 3, 7, 17, 33, 65, 127, 200};
enum { N_ODD = sizeof odd / sizeof *odd };

/* ---- products ---- */

struct product {
  bool trans_a, trans_b, add;
  int64_t m, n, k, pad; /* pad: leading dimensions are this much larger */
};

static void call_matmul(struct pool *pool, float *const *x, const void *context) {
  const struct product *p = context;
  matmul_cpu(pool, p->trans_a, p->trans_b, p->m, p->n, p->k, x[0], (p->trans_a ? p->m : p->k) + p->pad, x[1],
             (p->trans_b ? p->k : p->n) + p->pad, p->add ? 1.0f : 0.0f, x[2], p->n + p->pad);
}

static void check_product(struct product p) {
  int64_t lda = (p.trans_a ? p.m : p.k) + p.pad, ldb = (p.trans_b ? p.k : p.n) + p.pad, ldc = p.n + p.pad;
  struct array x[] = {check_array((p.trans_a ? p.k : p.m) * lda, 1), check_array((p.trans_b ? p.n : p.k) * ldb, 1),
                      check_sum(p.m * ldc)};
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      double sum = 0, *c = &x[2].value[i * ldc + j];
      for (int64_t k = 0; k < p.k; k++)
        sum += x[0].value[p.trans_a ? k * lda + i : i * lda + k] * x[1].value[p.trans_b ? j * ldb + k : k * ldb + j];
      x[2].want[i * ldc + j] = sum + (p.add ? *c : 0);
      if (!p.add) *c = (double)NAN; /* not to be read */
    }
  char label[96];
  snprintf(label, sizeof label, "matmul %d%d %dx%dx%d pad %d add %d", p.trans_a, p.trans_b, (int)p.m, (int)p.n,
           (int)p.k, (int)p.pad, p.add);
  check_kernel(label, call_matmul, &p, x, 3, tolerance.matmul);
}

/* Lines whole pages apart, where tiles are cut otherwise, and more columns than rows and the other way round. */
static void check_pages(bool trans_a, bool trans_b, bool add) {
  static const int64_t sizes[][3] = {{150, 1024, 520}, {1024, 200, 64}, {140, 250, 1024}, {16, 1024, 1024}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    check_product((struct product){trans_a, trans_b, add, sizes[i][0], sizes[i][1], sizes[i][2], 0});
}

static void check_products(void) {
  for (int t = 0; t < 8; t++) {
    struct product p = {.trans_a = t & 1, .trans_b = t & 2, .add = t & 4};
    for (int i = 0; i < N_ODD; i++) {
      p.m = odd[i], p.n = odd[(i * 4 + 1) % N_ODD], p.k = odd[(i * 2 + t) % N_ODD], p.pad = i % 3;
      check_product(p);
    }
    p.m = 530, p.n = 560, p.k = 300; /* large enough for the library to block it */
    check_product(p);
    check_pages(p.trans_a, p.trans_b, p.add);
  }
}

/* A^T B along lines that collide in the caches: those of A, of B and of both, more than are copied at a time. */
static void check_collisions(void) {
  static const int64_t sizes[][3] = {{1024, 200, 500}, {200, 768, 500}, {768, 256, 500}};
  for (int i = 0; i < 6; i++) {
    const int64_t *size = sizes[i / 2];
    check_product((struct product){.trans_a = true, .add = i % 2, .m = size[0], .n = size[1], .k = size[2]});
  }
}

struct bias {
  int64_t rows, n;
};

static void call_prepare(struct pool *pool, float *const *x, const void *context) {
  const struct bias *b = context;
  matmul_prepare_cpu(pool, b->rows, b->n, x[0], x[1], x[2]);
  matmul_prepare_cpu(pool, b->rows, b->n, NULL, x[1], x[3]);
  matmul_prepare_cpu(pool, b->rows, b->n, x[0], NULL, x[4]);
  matmul_bias_weight_cpu(pool, b->rows, b->n, x[0], x[5]);
}

static void check_bias(int64_t rows, int64_t n) {
  struct bias b = {rows, n};
  struct array x[] = {check_array(rows * n, 1), check_array(n, 1),      check_output(rows * n),
                      check_output(rows * n),   check_output(rows * n), check_sum(n)};
  for (int64_t i = 0; i < rows * n; i++) {
    x[2].want[i] = x[0].value[i] + x[1].value[i % n];
    x[3].want[i] = x[1].value[i % n];
    x[4].want[i] = x[0].value[i];
    x[5].want[i % n] += x[0].value[i];
  }
  char label[64];
  snprintf(label, sizeof label, "bias %dx%d", (int)rows, (int)n);
  check_kernel(label, call_prepare, &b, x, 6, tolerance.bias);
}

/* ---- norms ---- */

struct norm {
  bool layer_norm;
  int64_t rows, width;
  double eps;
  const double *weight, *bias, *d_y; /* of a loss, for finite differences */
};

static void refer_norm(const struct norm *p, const double *x, const double *weight, const double *bias, double *y,
                       double *stats) {
  int64_t n = p->width;
  for (int64_t r = 0; r < p->rows; r++) {
    double mean = 0, square = 0;
    for (int64_t j = 0; j < n && p->layer_norm; j++) mean += x[r * n + j] / (double)n;
    for (int64_t j = 0; j < n; j++) square += (x[r * n + j] - mean) * (x[r * n + j] - mean) / (double)n;
    double rstd = 1 / sqrt(square + p->eps);
    for (int64_t j = 0; j < n; j++) y[r * n + j] = (x[r * n + j] - mean) * rstd * weight[j] + (bias ? bias[j] : 0);
    if (p->layer_norm)
      stats[2 * r] = mean, stats[2 * r + 1] = rstd;
    else
      stats[r] = rstd;
  }
}

/* Adds to d_x, d_weight and d_bias. */
static void refer_norm_gradient(const struct norm *p, const double *x, const double *weight, const double *stats,
                                const double *d_y, double *d_x, double *d_weight, double *d_bias) {
  int64_t n = p->width;
  for (int64_t r = 0; r < p->rows; r++) {
    double mean = p->layer_norm ? stats[2 * r] : 0, rstd = p->layer_norm ? stats[2 * r + 1] : stats[r];
    double mean_g = 0, mean_gh = 0;
    for (int64_t j = 0; j < n; j++) {
      double g = d_y[r * n + j] * weight[j], h = (x[r * n + j] - mean) * rstd;
      if (p->layer_norm) mean_g += g / (double)n;
      mean_gh += g * h / (double)n;
      d_weight[j] += d_y[r * n + j] * h;
      if (d_bias) d_bias[j] += d_y[r * n + j];
    }
    for (int64_t j = 0; j < n; j++)
      d_x[r * n + j] += rstd * (d_y[r * n + j] * weight[j] - mean_g - (x[r * n + j] - mean) * rstd * mean_gh);
  }
}

static double lose_norm(const double *x, const void *context) {
  const struct norm *p = context;
  double y[64], stats[64], sum = 0;
  refer_norm(p, x, p->weight, p->bias, y, stats);
  for (int64_t i = 0; i < p->rows * p->width; i++) sum += y[i] * p->d_y[i];
  return sum;
}

static void check_norm_reference(bool layer_norm) {
  struct norm p = {.layer_norm = layer_norm, .rows = 3, .width = 7, .eps = 1e-2};
  double x[21], weight[7], bias[7], d_y[21], y[21], stats[6], d_x[21] = {0}, d_weight[7] = {0}, d_bias[7] = {0};
  for (int i = 0; i < 21; i++) x[i] = check_random(), d_y[i] = check_random();
  for (int i = 0; i < 7; i++) weight[i] = check_random(), bias[i] = check_random();
  p.weight = weight, p.bias = bias, p.d_y = d_y;
  refer_norm(&p, x, weight, bias, y, stats);
  refer_norm_gradient(&p, x, weight, stats, d_y, d_x, d_weight, d_bias);
  check_difference("norm reference", lose_norm, &p, x, d_x, 21);
}

static void call_norm(struct pool *pool, float *const *x, const void *context) {
  const struct norm *p = context;
  norm_forward_cpu(pool, p->layer_norm, p->rows, p->width, (float)p->eps, x[0], x[1], p->layer_norm ? x[2] : NULL, x[3],
                   x[4]);
}

static void call_norm_gradient(struct pool *pool, float *const *x, const void *context) {
  const struct norm *p = context;
  norm_input_cpu(pool, p->layer_norm, p->rows, p->width, x[0], x[1], x[2], x[3], NULL, x[4]);
  norm_input_cpu(pool, p->layer_norm, p->rows, p->width, x[0], x[1], x[2], x[3], x[5], x[5]);
  norm_weight_cpu(pool, p->layer_norm, p->rows, p->width, x[0], x[2], x[3], x[6], p->layer_norm ? x[7] : NULL);
}

static void check_norm(bool layer_norm, int64_t rows, int64_t width) {
  struct norm p = {.layer_norm = layer_norm, .rows = rows, .width = width, .eps = (double)1e-2f};
  int64_t n = rows * width, n_stats = layer_norm ? 2 * rows : rows;
  char label[64];
  snprintf(label, sizeof label, "%s norm %dx%d", layer_norm ? "layer" : "rms", (int)rows, (int)width);
  struct array x[] = {check_array(n, 3), check_array(width, 1), check_array(width, 1), check_output(n),
                      check_output(n_stats)};
  for (int64_t i = 0; i < n; i++) x[0].value[i] = (double)(float)(x[0].value[i] + 0.5);
  refer_norm(&p, x[0].value, x[1].value, layer_norm ? x[2].value : NULL, x[3].want, x[4].want);
  struct array g[] = {check_array(n, 3), check_array(width, 1), check_array(n_stats, 1), check_array(n, 1),
                      check_output(n),   check_sum(n),          check_sum(width),        check_sum(width)};
  double *unused = MEM_NEW(double, n);
  refer_norm(&p, g[0].value, g[1].value, NULL, unused, g[2].value);
  for (int64_t i = 0; i < n_stats; i++) g[2].value[i] = (double)(float)g[2].value[i];
  refer_norm_gradient(&p, g[0].value, g[1].value, g[2].value, g[3].value, g[4].want, g[6].want,
                      layer_norm ? g[7].want : NULL);
  for (int64_t i = 0; i < n; i++) g[5].want[i] += g[4].want[i];
  check_kernel(label, call_norm, &p, x, 5, tolerance.norm);
  /* At width 1 the gradient is what is left of two nearly equal numbers. */
  check_kernel(label, call_norm_gradient, &p, g, 8, width > 1 ? tolerance.norm_weight : INFINITY);
  mem_free(unused);
}

/* ---- rotary positions ---- */

struct rope {
  int64_t rows, length, n_heads, head_dim, ld;
  bool inverse;
};

static void call_rope(struct pool *pool, float *const *x, const void *context) {
  const struct rope *p = context;
  rope_cpu(pool, p->rows, p->length, p->n_heads, p->head_dim, p->ld, 10000.0, p->inverse, x[0]);
}

/* The pair (x[i], x[i + half]) as a complex number is turned by position * theta^(-2i/dim). */
static void check_rope(struct rope p) {
  struct array x = check_sum(p.rows * p.length * p.ld);
  int64_t half = p.head_dim / 2;
  for (int64_t t = 0; t < p.rows * p.length; t++)
    for (int64_t h = 0; h < p.n_heads; h++)
      for (int64_t i = 0; i < half; i++) {
        double angle = (double)(t % p.length) / pow(10000.0, 2.0 * (double)i / (double)p.head_dim);
        double *a = &x.want[t * p.ld + h * p.head_dim + i], *b = a + half, first = *a, second = *b;
        if (p.inverse) angle = -angle;
        *a = first * cos(angle) - second * sin(angle);
        *b = second * cos(angle) + first * sin(angle);
      }
  char label[80];
  snprintf(label, sizeof label, "rope %dx%d heads %d of %d inverse %d", (int)p.rows, (int)p.length, (int)p.n_heads,
           (int)p.head_dim, p.inverse);
  check_kernel(label, call_rope, &p, &x, 1, tolerance.rope);
}

/* ---- activations ---- */

static double refer_sigmoid(double u) { return 1 / (1 + exp(-u)); }

static double refer_activation(enum activation f, double u) {
  switch (f) {
  case ACTIVATION_GELU_TANH: return 0.5 * u * (1 + tanh(sqrt(2 / acos(-1.0)) * (u + 0.044715 * u * u * u)));
  case ACTIVATION_GELU: return 0.5 * u * erfc(-u / sqrt(2.0));
  case ACTIVATION_SILU: return u * refer_sigmoid(u);
  case ACTIVATION_RELU: return u > 0 ? u : 0;
  case ACTIVATION_RELU2: return u > 0 ? u * u : 0;
  }
  return 0;
}

/* The derivative by central differences of fourth order: no formula to share a mistake with the kernel's. */
static double refer_slope(enum activation f, double u) {
  double h = fabs(u) < 4e-3 ? fabs(u) / 4 : 1e-3; /* not across the corner of relu */
  if (h == 0) return f <= ACTIVATION_SILU ? 0.5 : 0;
  return (8 * (refer_activation(f, u + h) - refer_activation(f, u - h)) - refer_activation(f, u + 2 * h) +
          refer_activation(f, u - 2 * h)) /
         (12 * h);
}

struct activate {
  enum activation f;
  int64_t rows, width;
};

static void call_activation(struct pool *pool, float *const *x, const void *context) {
  const struct activate *p = context;
  activation_forward_cpu(pool, p->f, p->rows, p->width, x[0], x[1]);
  activation_input_cpu(pool, p->f, p->rows, p->width, x[0], x[2], x[3]);
  activation_input_cpu(pool, p->f, p->rows, p->width, x[0], x[4], x[4]);
}

static void call_gated(struct pool *pool, float *const *x, const void *context) {
  const struct activate *p = context;
  activation_gated_forward_cpu(pool, p->f, p->rows, p->width, x[0], x[1]);
  activation_gated_input_cpu(pool, p->f, p->rows, p->width, x[0], x[2], x[3]);
}

static void check_activation(enum activation f, int64_t rows, int64_t width) {
  struct activate p = {f, rows, width};
  int64_t n = rows * width;
  struct array x[] = {check_array(n, 8), check_output(n), check_array(n, 1), check_output(n), check_sum(n)};
  struct array g[] = {check_array(2 * n, 8), check_output(n), check_array(n, 1), check_output(2 * n)};
  x[0].value[0] = 0;
  for (int64_t i = 0; i < n; i++) {
    double u = x[0].value[i], slope = refer_slope(f, u);
    x[1].want[i] = refer_activation(f, u);
    x[3].want[i] = slope * x[2].value[i];
    x[4].want[i] = slope * x[4].value[i];
    int64_t gate = i / width * 2 * width + i % width, up = gate + width;
    g[1].want[i] = refer_activation(f, g[0].value[gate]) * g[0].value[up];
    g[3].want[gate] = refer_slope(f, g[0].value[gate]) * g[0].value[up] * g[2].value[i];
    g[3].want[up] = refer_activation(f, g[0].value[gate]) * g[2].value[i];
  }
  char label[64];
  snprintf(label, sizeof label, "activation %d %dx%d", (int)f, (int)rows, (int)width);
  check_kernel(label, call_activation, &p, x, 5, tolerance.activation);
  check_kernel(label, call_gated, &p, g, 4, tolerance.activation);
}

/* ---- embedding ---- */

struct embed {
  int64_t rows, length, width;
  bool positions;
  int32_t tokens[512], lengths[8];
};

static void call_embed(struct pool *pool, float *const *x, const void *context) {
  const struct embed *p = context;
  embed_forward_cpu(pool, p->rows, p->length, p->width, p->tokens, x[0], p->positions ? x[1] : NULL, x[2]);
  embed_weight_cpu(pool, p->rows, p->length, p->width, p->tokens, p->lengths, x[3], x[4], p->positions ? x[5] : NULL);
}

/* Few words and many tokens: most words come several times. */
static void check_embed(int64_t rows, int64_t length, int64_t width, bool positions) {
  enum { WORDS = 11 };
  struct embed p = {.rows = rows, .length = length, .width = width, .positions = positions};
  int64_t n = rows * length * width;
  for (int64_t r = 0; r < rows; r++) p.lengths[r] = (int32_t)(length - r > 0 ? length - r : 1);
  for (int64_t t = 0; t < rows * length; t++) p.tokens[t] = (int32_t)(fabs(check_random()) * WORDS);
  struct array x[] = {check_array(WORDS * width, 1), check_array(length * width, 1), check_output(n), check_array(n, 1),
                      check_sum(WORDS * width),      check_sum(length * width)};
  for (int64_t i = 0; i < n; i++) {
    int64_t t = i / width, at = t % length, word = p.tokens[t] * width + i % width, place = at * width + i % width;
    x[2].want[i] = x[0].value[word] + (positions ? x[1].value[place] : 0);
    if (at >= p.lengths[t / length]) x[3].value[i] = (double)1e30f; /* padding: left out */
    if (at >= p.lengths[t / length]) continue;
    x[4].want[word] += x[3].value[i];
    if (positions) x[5].want[place] += x[3].value[i];
  }
  char label[64];
  snprintf(label, sizeof label, "embed %dx%dx%d", (int)rows, (int)length, (int)width);
  check_kernel(label, call_embed, &p, x, 6, tolerance.embed);
}

/* ---- head ---- */

struct head {
  int64_t rows, width, vocab;
  int32_t labels[600];
  double scale;
  const double *table;
};

static double refer_head(const struct head *p, const double *x, const double *table, double *d_x, double *d_table,
                         double *token_loss) {
  double total = 0, *logit = MEM_NEW(double, p->vocab);
  for (int64_t r = 0; r < p->rows; r++) {
    if (token_loss) token_loss[r] = 0;
    if (p->labels[r] < 0) continue;
    double sum = 0, top = -INFINITY;
    for (int64_t v = 0; v < p->vocab; v++) {
      logit[v] = 0;
      for (int64_t j = 0; j < p->width; j++) logit[v] += x[r * p->width + j] * table[v * p->width + j];
      top = fmax(top, logit[v]);
    }
    for (int64_t v = 0; v < p->vocab; v++) sum += exp(logit[v] - top);
    double loss = top + log(sum) - logit[p->labels[r]];
    total += loss;
    if (token_loss) token_loss[r] = loss;
    for (int64_t v = 0; v < p->vocab && d_x; v++) {
      double d = p->scale * (exp(logit[v] - top) / sum - (v == p->labels[r]));
      for (int64_t j = 0; j < p->width; j++) {
        d_x[r * p->width + j] += d * table[v * p->width + j];
        d_table[v * p->width + j] += d * x[r * p->width + j];
      }
    }
  }
  mem_free(logit);
  return total;
}

static double lose_head(const double *x, const void *context) {
  const struct head *p = context;
  return p->scale * refer_head(p, x, p->table, NULL, NULL, NULL);
}

static void check_head_reference(void) {
  struct head p = {.rows = 4, .width = 5, .vocab = 9, .labels = {3, -100, 0, 8}, .scale = 0.7};
  double x[20], table[45], d_x[20] = {0}, d_table[45] = {0};
  for (int i = 0; i < 20; i++) x[i] = check_random();
  for (int i = 0; i < 45; i++) table[i] = check_random();
  p.table = table;
  refer_head(&p, x, table, d_x, d_table, NULL);
  check_difference("head reference", lose_head, &p, x, d_x, 20);
}

/* Arrays: x, table, sum (as one float, and again of the forward alone), d_x, d_table, scratch, token_loss. The scratch
 * array is compared with nothing: it is given NaN before, and its contents are put back. */
static void call_head(struct pool *pool, float *const *x, const void *context) {
  const struct head *p = context;
  float *scratch = MEM_NEW(float, head_get_scratch(p->rows, p->vocab));
  double sum = head_forward_cpu(pool, p->rows, p->width, p->vocab, x[0], x[1], p->labels, (float)p->scale, x[3], x[4],
                                scratch, x[5]);
  double forward = head_forward_cpu(pool, p->rows, p->width, p->vocab, x[0], x[1], p->labels, (float)p->scale, NULL,
                                    NULL, scratch, NULL);
  T_CHECK(sum == forward, "head: the loss is %.17g with gradients, %.17g without", sum, forward);
  x[2][0] = (float)sum;
  mem_free(scratch);
}

/* Every third token, and the first `unlabelled`, have no label. */
static void check_head(int64_t rows, int64_t width, int64_t vocab, int64_t unlabelled) {
  struct head p = {.rows = rows, .width = width, .vocab = vocab, .scale = (double)0.37f};
  for (int64_t r = 0; r < rows; r++)
    p.labels[r] = r < unlabelled || r % 3 == 2 ? -100 : (int32_t)(fabs(check_random()) * (double)vocab);
  struct array x[] = {check_array(rows * width, 1), check_array(vocab * width, 1), check_output(1),
                      check_output(rows * width),   check_sum(vocab * width),      check_output(rows)};
  x[2].want[0] = refer_head(&p, x[0].value, x[1].value, x[3].want, x[4].want, x[5].want);
  char label[64];
  snprintf(label, sizeof label, "head %dx%dx%d", (int)rows, (int)width, (int)vocab);
  check_kernel(label, call_head, &p, x, 6, tolerance.head);
}

/* ---- optimizer and passes ---- */

static void call_adamw(struct pool *pool, float *const *x, const void *context) {
  struct adamw p = {
      .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.1f, .grad_scale = 0.5f};
  p.step = 3;
  adamw_cpu(pool, &p, *(const int64_t *)context, x[0], x[1], x[2], x[3]);
}

static void check_adamw(int64_t n) {
  struct array x[] = {check_sum(n), check_sum(n), check_sum(n), check_sum(n)};
  for (int64_t i = 0; i < n; i++) {
    double g = 0.5 * x[1].value[i], b1 = (double)0.9f, b2 = (double)0.999f, lr = (double)0.01f;
    x[3].value[i] = fabs(x[3].value[i]);
    double m = x[2].want[i] = b1 * x[2].value[i] + (1 - b1) * g;
    double v = x[3].want[i] = b2 * x[3].value[i] + (1 - b2) * g * g;
    double w = x[0].value[i] * (1 - lr * (double)0.1f);
    x[0].want[i] = w - lr * (m / (1 - pow(b1, 3))) / (sqrt(v / (1 - pow(b2, 3))) + (double)1e-8f);
    x[1].want[i] = 0;
  }
  char label[64];
  snprintf(label, sizeof label, "adamw %d", (int)n);
  check_kernel(label, call_adamw, &n, x, 4, tolerance.adamw);
}

static void call_passes(struct pool *pool, float *const *x, const void *context) {
  int64_t n = *(const int64_t *)context;
  add_cpu(pool, n, x[0], x[1]);
  fill_cpu(pool, n, 2.5f, x[2]);
  x[3][0] = (float)sum_squares_cpu(pool, n, x[0]);
}

static void check_passes(int64_t n) {
  struct array x[] = {check_array(n, 1), check_sum(n), check_output(n), check_output(1)};
  for (int64_t i = 0; i < n; i++) {
    x[1].want[i] += x[0].value[i];
    x[2].want[i] = 2.5;
    x[3].want[0] += x[0].value[i] * x[0].value[i];
  }
  char label[64];
  snprintf(label, sizeof label, "passes %d", (int)n);
  check_kernel(label, call_passes, &n, x, 4, 3e-7);
}

/* Sums of squares beyond float's range are finite; infinite and NaN values show, wherever they stand. */
static void check_square_range(void) {
  enum { N = 40000 };
  float *g = MEM_NEW(float, N);
  for (int i = 0; i < N; i++) g[i] = 3e38f;
  double sum = sum_squares_cpu(check_get_pool(3), N, g);
  T_CHECK(fabs(sum / (N * (double)3e38f * (double)3e38f) - 1) < 1e-12, "sum of large squares: %g", sum);
  for (int at = 0; at < N; at += N - 1) {
    g[at] = NAN;
    T_CHECK(isnan(sum_squares_cpu(check_get_pool(3), N, g)), "NaN at %d shows", at);
    g[at] = -INFINITY;
    T_CHECK(isinf(sum_squares_cpu(check_get_pool(3), N, g)), "infinity at %d shows", at);
    g[at] = 0;
  }
  mem_free(g);
}

static void check_wide(void) {
  check_head_reference();
  check_head(4, 5, 9, 0);
  check_head(1, 33, 127, 0);
  check_head(65, 17, 3001, 0);
  check_head(300, 16, 70, 40); /* two chunks */
  check_head(530, 7, 33, 270); /* three chunks, the first without labels */
  for (int64_t n = 1; n < 50000; n = n * 3 + 2) {
    check_adamw(n);
    check_passes(n);
  }
  check_passes(1200000); /* several rounds of sums */
  check_square_range();
}

int main(void) {
  check_open();
  check_products();
  check_norm_reference(true);
  check_norm_reference(false);
  for (int i = 0; i < N_ODD; i++)
    for (int j = 0; j < 2; j++) {
      int64_t rows = odd[(i * 5 + j + 2) % N_ODD], width = odd[i];
      check_bias(rows, width);
      check_norm(j, rows, width);
      check_embed(odd[(i + j) % 4], odd[i % 6], width, j);
      for (int f = ACTIVATION_GELU_TANH; f <= ACTIVATION_RELU2; f++) check_activation(f, rows, width);
    }
  static const int64_t dims[] = {8, 16, 32, 64, 80, 128, 200, 6};
  for (int i = 0; i < 8; i++) check_rope((struct rope){2, 5 + 60 * i, 3, dims[i], 3 * dims[i] + i, i % 2});
  check_wide();
  check_collisions();
  check_close();
  T_CHECK(mem_balance() == 0, "%d allocations left", (int)mem_balance());
  return t_end();
}
