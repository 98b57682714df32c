/* Files that end in a seal: contents that grow, shrink and change at random are read again as they were written, and no
 * flipped, missing or added byte of a file passes for what was written. Without the seal, and to HDF5, they are files
 * like any other.
 */
#include <hdf5.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/h5.h"
#include "store/image.h"
#include "store/seal.h"
#include "t.h"

enum { MOST = 400000 };

static const char path[] = "sealed.h5", copy_path[] = "sealed-copy.h5";

/* A damaged file is read again after a pause, as another process may be about to replace it. Here none is. */
int nanosleep(const struct timespec *pause, struct timespec *rest) {
  (void)pause, (void)rest;
  return 0;
}

static int64_t draw(int64_t n) {
  static const struct rng_key key = {.seed = 5, .purpose = RNG_TEST};
  static uint64_t drawn;
  return (int64_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}

static unsigned char *read_whole(const char *name, int64_t *n) {
  FILE *in = fopen(name, "rb");
  unsigned char *data = mem_alloc(MOST * 4);
  *n = in ? (int64_t)fread(data, 1, MOST * 4, in) : -1;
  if (in) fclose(in);
  return data;
}

static void write_whole(const char *name, const void *data, int64_t n) {
  FILE *out = fopen(name, "wb");
  T_CHECK(out && fwrite(data, 1, (size_t)n, out) == (size_t)n, "%s", name);
  if (out) fclose(out);
}

/* ---- contents ---- */

static unsigned char *shadow; /* [MOST] what the image is to hold: zeros beyond `size` */
static int64_t size;

static void change(struct image *image) {
  static unsigned char bytes[3000];
  int64_t n = 1 + draw(sizeof bytes), at = draw(draw(3) ? size + 1 : MOST - (int64_t)sizeof bytes);
  if (draw(5) == 0) {
    bool grows = size < MOST / 2 && draw(2); /* by what is never written */
    size = grows ? size + draw(100000) : draw(size + 1);
    memset(shadow + size, 0, (size_t)(MOST - size));
    image_set_size(image, size);
    T_CHECK(!image_commit(image), "%s", error_text());
    return;
  }
  if (at + n > MOST) return;
  for (int64_t i = 0; i < n; i++) shadow[at + i] = bytes[i] = (unsigned char)draw(256);
  image_write(image, at, bytes, n);
  if (at + n > size) size = at + n;
}

static void check_content(const struct image *image, int trial) {
  unsigned char *data = mem_alloc(MOST);
  T_CHECK(image_get_size(image) == size, "trial %d: %lld bytes, not %lld", trial, (long long)image_get_size(image),
          (long long)size);
  T_CHECK(!image_read(image, 0, data, size) && !memcmp(data, shadow, (size_t)size), "trial %d: the content", trial);
  mem_free(data);
}

static void test_contents(void) {
  struct image *image = image_create(path);
  shadow = MEM_NEW(unsigned char, MOST);
  size = 0;
  for (int trial = 0; trial < 50; trial++) {
    for (int64_t k = draw(4); k >= 0; k--) change(image);
    T_CHECK(!image_commit(image), "%s", error_text());
    if (draw(2)) continue;
    image_close(&image);
    bool writable = draw(2);
    T_CHECK(!image_open(path, writable, &image), "trial %d: %s", trial, error_text());
    if (!image) break;
    check_content(image, trial);
    if (writable) continue;
    image_close(&image);
    T_CHECK(!image_open(path, true, &image), "trial %d: %s", trial, error_text());
    if (!image) break;
  }
  image_close(&image);
  mem_free(shadow);
}

/* ---- damage ---- */

static void make_file(void) {
  static const struct h5_column columns[] = {{"a", H5_INT64, "s", NULL}, {"b", H5_FLOAT64, NULL, NULL}};
  struct h5_file *file;
  int64_t a[500];
  double b[500];
  for (int i = 0; i < 500; i++) a[i] = i, b[i] = i / 3.0;
  T_CHECK(!h5_create(path, &file) && !h5_write_text(file, "/", "text", "some text of a deck") &&
              !h5_table_create(file, "/t", columns, 2) &&
              !h5_table_append(file, "/t", columns, 2, 500, (const void *const[]){a, b}) && !h5_close(&file),
          "%s", error_text());
}

static int open_copy(const unsigned char *data, int64_t n) {
  struct image *image;
  write_whole(copy_path, data, n);
  error_clear();
  int status = image_open(copy_path, false, &image);
  image_close(&image);
  return status;
}

/* Any bit of the content, and of the seal but its first bytes: a file without these is one of an older program. */
static void test_flips(void) {
  int64_t n;
  unsigned char *data = read_whole(path, &n);
  for (int k = 0; k < 60; k++) {
    int64_t at = k < 30 ? draw(n) : k < 45 ? draw(2000) : n - 1 - draw((int64_t)sizeof(struct seal) - 8);
    if (n - at > (int64_t)sizeof(struct seal) - 8 && n - at <= (int64_t)sizeof(struct seal)) continue;
    unsigned char bit = (unsigned char)(1 << draw(8));
    data[at] ^= bit;
    T_CHECK(open_copy(data, n) == STATUS_MISTAKE && strstr(error_text(), "is damaged"), "byte %lld: %s", (long long)at,
            error_text());
    data[at] ^= bit;
  }
  mem_free(data);
}

/* A byte more or less inside the file; all of the seal missing is no damage. */
static void test_lengths(void) {
  int64_t n;
  unsigned char *data = read_whole(path, &n), *other = mem_alloc((size_t)n + 1);
  for (int k = 0; k < 10; k++) {
    int64_t at = draw(n - (int64_t)sizeof(struct seal));
    memcpy(other, data, (size_t)at);
    memcpy(other + at, data + at + 1, (size_t)(n - at - 1));
    T_CHECK(open_copy(other, n - 1) == STATUS_MISTAKE, "byte %lld is missing", (long long)at);
    other[at] = 7;
    memcpy(other + at + 1, data + at, (size_t)(n - at));
    T_CHECK(open_copy(other, n + 1) == STATUS_MISTAKE, "a byte more at %lld", (long long)at);
  }
  T_CHECK(!open_copy(data, n), "%s", error_text());
  T_CHECK(!open_copy(data, n - (int64_t)sizeof(struct seal)), "%s", error_text());
  mem_free(data);
  mem_free(other);
}

/* Without its seal the file opens, and has one again once it was written to; HDF5 alone reads it with the seal. */
static void test_others(void) {
  struct h5_file *file;
  char *text = NULL;
  bool whole;
  int64_t n;
  hid_t id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  T_CHECK(id >= 0, "HDF5 does not open a file with a seal");
  H5Fclose(id);
  unsigned char *data = read_whole(path, &n);
  write_whole(copy_path, data, n - (int64_t)sizeof(struct seal));
  mem_free(data);
  T_CHECK(!h5_open(copy_path, true, &file) && !h5_write_int(file, "/", "more", 3) &&
              !h5_read_text(file, "/", "text", &text) && !h5_close(&file),
          "%s", error_text());
  T_CHECK(text && !strcmp(text, "some text of a deck"), "the text is '%s'", text);
  mem_free(text);
  data = read_whole(copy_path, &n);
  struct seal seal;
  memcpy(&seal, data + n - sizeof seal, sizeof seal);
  T_CHECK(seal_is_one(&seal, n, &whole) && whole, "no seal after a change");
  mem_free(data);
}

int main(void) {
  char folder[] = "test_seal-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  test_contents();
  make_file();
  test_flips();
  test_lengths();
  test_others();
  unlink(path);
  unlink(copy_path);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  T_CHECK(h5_balance() == 0, "%lld objects open", (long long)h5_balance());
  if (chdir("..") || rmdir(folder)) return 1;
  return t_end();
}
