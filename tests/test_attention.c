/* Causal attention against a float64 reference that stores its scores, itself held against finite differences. */
#include "kernel_check.h"

/* Float32 with sums of head_dim and length terms and an exponential; padded rows included. */
static const double forward_tolerance = 3e-6, input_tolerance = 1e-5;

struct sizes {
  int64_t rows, length, n_heads, n_kv_heads, head_dim;
  int shorter; /* row r has r * shorter tokens less, at least 1 */
};

static const struct sizes cases[] = {
    {1, 1, 1, 1, 8, 0},      {2, 2, 2, 1, 16, 0},   {3, 7, 3, 3, 8, 3},     {1, 17, 4, 2, 32, 0},
    {2, 33, 2, 2, 80, 9},    {2, 64, 2, 1, 64, 1},  {1, 65, 3, 1, 64, 0},   {3, 127, 2, 2, 64, 60},
    {1, 128, 1, 1, 128, 0},  {2, 129, 2, 2, 64, 1}, {2, 200, 4, 2, 16, 73}, {1, 257, 2, 1, 128, 0},
    {2, 300, 2, 2, 64, 150}, {2, 20, 2, 1, 5, 6},   {1, 70, 1, 1, 19, 0},   {4, 66, 6, 2, 24, 30},
};

static struct attention_shape make_shape(const struct sizes *s, int32_t *lengths) {
  for (int64_t r = 0; r < s->rows; r++) {
    int64_t n = s->length - r * s->shorter;
    lengths[r] = (int32_t)(n < 1 ? 1 : n);
  }
  return (struct attention_shape){s->rows, s->length, lengths, s->n_heads, s->n_kv_heads, s->head_dim};
}

static int64_t get_ld(const struct attention_shape *s) { return (s->n_heads + 2 * s->n_kv_heads) * s->head_dim; }

/* One query: probabilities over keys 0..i in p; returns the log of the sum of exponentials. */
static double refer_scores(const struct attention_shape *s, const double *row, int64_t head, int64_t i, double *p) {
  int64_t ld = get_ld(s), dim = s->head_dim, kv = s->n_heads + head / (s->n_heads / s->n_kv_heads);
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j <= i; j++) {
    p[j] = 0;
    for (int64_t d = 0; d < dim; d++) p[j] += row[i * ld + head * dim + d] * row[j * ld + kv * dim + d];
    p[j] /= sqrt((double)dim);
    top = fmax(top, p[j]);
  }
  for (int64_t j = 0; j <= i; j++) sum += p[j] = exp(p[j] - top);
  for (int64_t j = 0; j <= i; j++) p[j] /= sum;
  return top + log(sum);
}

static void refer_forward(const struct attention_shape *s, const double *qkv, double *out, double *lse) {
  int64_t ld = get_ld(s), dim = s->head_dim;
  double *p = MEM_NEW(double, s->length);
  memset(out, 0, sizeof(double) * (size_t)(s->rows * s->length * s->n_heads * dim));
  memset(lse, 0, sizeof(double) * (size_t)(s->rows * s->length * s->n_heads));
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t i = 0; i < s->lengths[r]; i++)
      for (int64_t h = 0; h < s->n_heads; h++) {
        const double *row = qkv + r * s->length * ld;
        int64_t at = (r * s->length + i) * s->n_heads + h;
        int64_t v = s->n_heads + s->n_kv_heads + h / (s->n_heads / s->n_kv_heads);
        lse[at] = refer_scores(s, row, h, i, p);
        for (int64_t j = 0; j <= i; j++)
          for (int64_t d = 0; d < dim; d++) out[at * dim + d] += p[j] * row[j * ld + v * dim + d];
      }
  mem_free(p);
}

/* The gradient of one query's output, added to d_qkv of its row. */
static void refer_query(const struct attention_shape *s, const double *row, int64_t h, int64_t i, const double *d_out,
                        double *p, double *d_row) {
  int64_t ld = get_ld(s), dim = s->head_dim, k = s->n_heads + h / (s->n_heads / s->n_kv_heads), v = k + s->n_kv_heads;
  double *dp = MEM_NEW(double, s->length), mean = 0;
  refer_scores(s, row, h, i, p);
  for (int64_t j = 0; j <= i; j++) {
    for (int64_t d = 0; d < dim; d++) {
      dp[j] += d_out[d] * row[j * ld + v * dim + d];
      d_row[j * ld + v * dim + d] += p[j] * d_out[d];
    }
    mean += p[j] * dp[j];
  }
  for (int64_t j = 0; j <= i; j++) {
    double ds = p[j] * (dp[j] - mean) / sqrt((double)dim);
    for (int64_t d = 0; d < dim; d++) {
      d_row[i * ld + h * dim + d] += ds * row[j * ld + k * dim + d];
      d_row[j * ld + k * dim + d] += ds * row[i * ld + h * dim + d];
    }
  }
  mem_free(dp);
}

static void refer_input(const struct attention_shape *s, const double *qkv, const double *d_out, double *d_qkv) {
  int64_t ld = get_ld(s);
  double *p = MEM_NEW(double, s->length);
  memset(d_qkv, 0, sizeof(double) * (size_t)(s->rows * s->length * ld));
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t i = 0; i < s->lengths[r]; i++)
      for (int64_t h = 0; h < s->n_heads; h++)
        refer_query(s, qkv + r * s->length * ld, h, i, d_out + ((r * s->length + i) * s->n_heads + h) * s->head_dim, p,
                    d_qkv + r * s->length * ld);
  mem_free(p);
}

static void call_forward(struct pool *pool, float *const *x, const void *context) {
  attention_forward_cpu(pool, context, x[0], x[1], x[2]);
}

/* The kernel's own forward gives out and lse, as in a run. */
static void call_input(struct pool *pool, float *const *x, const void *context) {
  attention_forward_cpu(pool, context, x[0], x[1], x[2]);
  attention_input_cpu(pool, context, x[0], x[1], x[2], x[3], x[4], x[5]);
}

static void check_sizes(const struct sizes *sizes) {
  int32_t lengths[8];
  struct attention_shape s = make_shape(sizes, lengths);
  int64_t tokens = s.rows * s.length, n_qkv = tokens * get_ld(&s), n_lse = tokens * s.n_heads;
  char label[96];
  snprintf(label, sizeof label, "attention rows %d length %d heads %d/%d of %d", (int)s.rows, (int)s.length,
           (int)s.n_heads, (int)s.n_kv_heads, (int)s.head_dim);
  struct array forward[] = {check_array(n_qkv, 2), check_output(n_lse * s.head_dim), check_output(n_lse)};
  refer_forward(&s, forward[0].value, forward[1].want, forward[2].want);
  check_kernel(label, call_forward, &s, forward, 3, forward_tolerance);

  struct array input[] = {check_array(n_qkv, 2), check_output(n_lse * s.head_dim),
                          check_output(n_lse),   check_array(n_lse * s.head_dim, 1),
                          check_output(n_qkv),   check_output(n_lse)};
  refer_forward(&s, input[0].value, input[1].want, input[2].want);
  refer_input(&s, input[0].value, input[3].value, input[4].want);
  for (int64_t i = 0; i < n_lse; i++)
    for (int64_t d = 0; d < s.head_dim; d++)
      input[5].want[i] += input[1].want[i * s.head_dim + d] * input[3].value[i * s.head_dim + d];
  check_kernel(label, call_input, &s, input, 6, input_tolerance);
}

struct loss {
  const struct attention_shape *shape;
  const double *d_out;
};

static double sum_outputs(const double *qkv, const void *context) {
  const struct loss *loss = context;
  const struct attention_shape *s = loss->shape;
  int64_t n = s->rows * s->length * s->n_heads;
  double *out = MEM_NEW(double, n * s->head_dim), *lse = MEM_NEW(double, n), sum = 0;
  refer_forward(s, qkv, out, lse);
  for (int64_t i = 0; i < n * s->head_dim; i++) sum += out[i] * loss->d_out[i];
  mem_free(out);
  mem_free(lse);
  return sum;
}

static void check_reference(void) {
  int32_t lengths[8];
  struct sizes sizes = {2, 5, 4, 2, 3, 2};
  struct attention_shape s = make_shape(&sizes, lengths);
  int64_t n = s.rows * s.length * get_ld(&s);
  struct array x = check_array(n, 1), d_out = check_array(s.rows * s.length * s.n_heads * s.head_dim, 1);
  double *gradient = MEM_NEW(double, n);
  struct loss loss = {&s, d_out.value};
  refer_input(&s, x.value, d_out.value, gradient);
  check_difference("attention reference", sum_outputs, &loss, x.value, gradient, n);
  mem_free(gradient);
  check_free(&x, 1);
  check_free(&d_out, 1);
}

/* Whatever stands at padding, NaN too, changes no bit of outputs and gradients; nor does what comes after a token. */
static void check_padding(void) {
  int32_t lengths[8];
  struct sizes sizes = {3, 150, 2, 1, 64, 70};
  struct attention_shape s = make_shape(&sizes, lengths);
  int64_t tokens = s.rows * s.length, ld = get_ld(&s), n_lse = tokens * s.n_heads, width = s.n_heads * s.head_dim;
  float *memory = MEM_NEW(float, 2 * (2 * tokens * ld + 2 * n_lse * s.head_dim + 2 * n_lse));
  float *x[2][6], *next = memory;
  int64_t n[] = {tokens * ld, tokens * width, n_lse, tokens * width, tokens * ld, n_lse};
  for (int k = 0; k < 2; k++)
    for (int a = 0; a < 6; a++) {
      x[k][a] = next;
      next += n[a];
    }
  for (int64_t i = 0; i < n[0]; i++) {
    x[0][0][i] = x[1][0][i] = (float)check_random();
    if (i / ld % s.length >= lengths[i / ld / s.length]) x[1][0][i] = NAN;
  }
  for (int64_t i = 0; i < n[3]; i++) {
    x[0][3][i] = x[1][3][i] = (float)check_random();
    if (i / width % s.length >= lengths[i / width / s.length]) x[1][3][i] = NAN;
  }
  for (int k = 0; k < 2; k++) call_input(check_get_pool(2), x[k], &s);
  static const char *const names[] = {"", "out", "lse", "", "d_qkv"};
  for (int a = 1; a < 5; a++)
    if (a != 3) T_CHECK(!memcmp(x[0][a], x[1][a], (size_t)n[a] * sizeof(float)), "padding shows in %s", names[a]);
  mem_free(memory);
}

int main(void) {
  check_open();
  check_reference();
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) check_sizes(&cases[i]);
  check_padding();
  check_close();
  T_CHECK(mem_balance() == 0, "%d allocations left", (int)mem_balance());
  return t_end();
}
