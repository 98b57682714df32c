/* Messages and collectives on any number of ranks. A message of 2^31 + 7 bytes goes
 * from one of 2 ranks to the other. */
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "t.h"

static int rank, size;

/* ---- the content of message number `i` from one rank to another, told by its place ---- */

static uint64_t draw(int from, int to, int64_t i, uint32_t what) {
  struct rng_key key = {.seed = (uint64_t)from << 32 | (uint32_t)to, .purpose = RNG_TEST, .a = what};
  return rng_bits(&key, (uint64_t)i);
}

static int64_t draw_size(int from, int to, int64_t i, int64_t piece) {
  uint64_t bits = draw(from, to, i, 1);
  switch (bits % 6) {
  case 0: return 0;
  case 1: return (int64_t)(bits >> 8) % 100;
  case 2: return (int64_t)(1 + (bits >> 8) % 5) * piece; /* whole pieces */
  case 3: return (int64_t)(bits >> 8) % (4 * piece);
  case 4: return (int64_t)(bits >> 8) % 300000;
  default: return 1;
  }
}

static unsigned char byte_at(uint64_t salt, int64_t place) {
  return (unsigned char)((salt ^ (uint64_t)place * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

static void fill(unsigned char *data, int64_t bytes, uint64_t salt) {
  for (int64_t i = 0; i < bytes; i++) data[i] = byte_at(salt, i);
}

static int64_t count_wrong(const unsigned char *data, int64_t bytes, uint64_t salt) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < bytes; i++) wrong += data[i] != byte_at(salt, i);
  return wrong;
}

/* Every rank sends every rank, itself too, MESSAGES messages; tags repeat, so order within a tag decides which is
 * which. */
static void test_pairs(struct comm *comm, int64_t piece, bool receives_first) {
  enum { MESSAGES = 12, TAGS = 3, TAG_LAST = (1 << 27) - 1 };
  int n = size * MESSAGES;
  struct comm_request **sends = MEM_NEW(struct comm_request *, n), **receives = MEM_NEW(struct comm_request *, n);
  unsigned char **out = MEM_NEW(unsigned char *, n), **in = MEM_NEW(unsigned char *, n);
  for (int phase = 0; phase < 2; phase++)
    for (int k = 0; k < n; k++) {
      int peer = k % size, i = k / size, tag = TAG_LAST - i % TAGS;
      if ((phase == 0) == receives_first) {
        int64_t bytes = draw_size(peer, rank, i, piece);
        in[k] = mem_alloc((size_t)bytes);
        receives[k] = comm_receive_begin(comm, peer, tag, in[k], bytes);
      } else {
        int64_t bytes = draw_size(rank, peer, i, piece);
        out[k] = mem_alloc((size_t)bytes);
        fill(out[k], bytes, draw(rank, peer, i, 2));
        sends[k] = comm_send_begin(comm, peer, tag, out[k], bytes);
      }
    }
  for (int k = n - 1; k >= 0; k--) { /* against the order of posting */
    comm_wait(comm, &receives[k], "a test message");
    T_CHECK(receives[k] == NULL, "request is not cleared");
    int peer = k % size, i = k / size;
    int64_t bytes = draw_size(peer, rank, i, piece);
    int64_t wrong = count_wrong(in[k], bytes, draw(peer, rank, i, 2));
    T_CHECK(wrong == 0, "message %d from rank %d: %" PRId64 " of %" PRId64 " bytes wrong", i, peer, wrong, bytes);
    mem_free(in[k]);
  }
  for (int k = 0; k < n; k++) {
    comm_wait(comm, &sends[k], "a test message to go out");
    mem_free(out[k]);
  }
  mem_free(sends);
  mem_free(receives);
  mem_free(out);
  mem_free(in);
}

/* Addresses of `bytes` bytes behind which the same `window` bytes lie again and again (multiple of the page size): a
 * message beyond 2 GiB need not fill that much memory. NULL on failure. */
static unsigned char *map_windows(size_t bytes, size_t window) {
  int file = memfd_create("test_comm", MFD_CLOEXEC);
  unsigned char *all = mmap(NULL, bytes + window, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool good = file >= 0 && all != MAP_FAILED && ftruncate(file, (off_t)window) == 0;
  for (size_t start = 0; good && start < bytes; start += window)
    good = mmap(all + start, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  if (file >= 0) close(file);
  return good ? all : NULL;
}

/* One message of 2^31 + 7 bytes from rank 0 to rank 1. The content repeats with the window, which is not a multiple of
 * the piece, so what comes to a wrong place in the last round shows. */
static void test_large(struct comm *comm) {
  const size_t window = (16 << 20) + (64 << 10), bytes = ((size_t)1 << 31) + 7;
  if (size != 2) return;
  unsigned char *data = map_windows(bytes, window);
  T_CHECK(data, "cannot map the large message");
  if (!data) return;
  if (rank == 0) {
    fill(data, (int64_t)window, 77);
    struct comm_request *send = comm_send_begin(comm, 1, 1, data, (int64_t)bytes);
    comm_wait(comm, &send, "the large message to go out");
  } else {
    memset(data, 0, window);
    struct comm_request *receive = comm_receive_begin(comm, 0, 1, data, (int64_t)bytes);
    comm_wait(comm, &receive, "the large message");
    int64_t wrong = count_wrong(data, (int64_t)window, 77);
    T_CHECK(wrong == 0, "%" PRId64 " wrong bytes at the end of 2^31 + 7", wrong);
  }
  munmap(data, bytes + window);
}

/* ---- collectives ---- */

static void test_broadcast(struct comm *comm) {
  static const int64_t sizes[] = {0, 1, 1000, 1024, 2048, 100001};
  for (int root = 0; root < size; root++)
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      unsigned char *data = mem_alloc((size_t)sizes[s]);
      if (rank == root) fill(data, sizes[s], draw(root, 0, sizes[s], 3));
      comm_broadcast_all(comm, root, data, sizes[s]);
      int64_t wrong = count_wrong(data, sizes[s], draw(root, 0, sizes[s], 3));
      T_CHECK(wrong == 0, "broadcast of %" PRId64 " bytes from %d: %" PRId64 " wrong", sizes[s], root, wrong);
      mem_free(data);
    }
}

static int64_t part_size(int r, int round) {
  return round == 0 ? 0 : round == 1 ? (r % 2) * 3 : 1 + r * 977 * (round - 1);
}

/* root < 0: all ranks receive. */
static void gather_once(struct comm *comm, int root, int round) {
  int64_t bytes = part_size(rank, round), *offsets = MEM_NEW(int64_t, size + 1), total = 0;
  unsigned char *part = mem_alloc((size_t)bytes);
  fill(part, bytes, draw(rank, round, 0, 4));
  if (root < 0)
    comm_gather_all(comm, part, bytes, NULL, offsets);
  else
    comm_gather_root_all(comm, root, part, bytes, NULL, offsets);
  for (int r = 0; r < size; r++) {
    T_CHECK(offsets[r] == total, "offset of rank %d: %" PRId64 ", not %" PRId64, r, offsets[r], total);
    total += part_size(r, round);
  }
  T_CHECK(offsets[size] == total, "total %" PRId64 ", not %" PRId64, offsets[size], total);
  bool receives = root < 0 || rank == root;
  unsigned char *out = receives ? mem_alloc((size_t)total) : NULL;
  if (root < 0)
    comm_gather_all(comm, part, bytes, out, offsets);
  else
    comm_gather_root_all(comm, root, part, bytes, out, receives ? offsets : NULL);
  for (int r = 0; receives && r < size; r++) {
    int64_t wrong = count_wrong(out + offsets[r], part_size(r, round), draw(r, round, 0, 4));
    T_CHECK(wrong == 0, "root %d round %d: %" PRId64 " wrong bytes of rank %d", root, round, wrong, r);
  }
  mem_free(out);
  mem_free(part);
  mem_free(offsets);
}

static void test_gather(struct comm *comm) {
  for (int round = 0; round < 4; round++)
    for (int root = -1; root < size; root++) gather_once(comm, root, round);
}

static void test_agree(struct comm *comm) {
  error_clear();
  T_CHECK(comm_agree_all(comm, STATUS_OK) == STATUS_OK, "all OK");
  for (int failing = 0; failing < size; failing++) {
    int status = rank == failing ? error_raise(STATUS_MISTAKE, "file %d", rank) : STATUS_OK;
    if (rank > failing && rank % 2) status = error_raise(STATUS_FAILED, "later %d", rank);
    if (rank < failing) status = error_raise(STATUS_STOPPED, "stopped %d", rank);
    T_CHECK(comm_agree_all(comm, status) == STATUS_MISTAKE, "status %d", error_status());
    char wanted[300];
    if (failing == 0)
      snprintf(wanted, sizeof wanted, "file 0");
    else
      snprintf(wanted, sizeof wanted, "on rank %d (%s): file %d", failing, comm_get_host(comm, failing), failing);
    T_CHECK(strcmp(error_text(), wanted) == 0, "'%s' is not '%s'", error_text(), wanted);
  }
  int status = rank == size - 1 ? error_raise(STATUS_STOPPED, "enough") : STATUS_OK;
  T_CHECK(comm_agree_all(comm, status) == STATUS_STOPPED && strstr(error_text(), "enough"), "%s", error_text());
}

/* ---- waiting ---- */

static double get_cpu_seconds(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return (double)use.ru_utime.tv_sec + 1e-6 * (double)use.ru_utime.tv_usec + (double)use.ru_stime.tv_sec +
         1e-6 * (double)use.ru_stime.tv_usec;
}

/* While one rank sleeps the others wait, in each way there is, and use little of a core. */
static void test_idle(struct comm *comm) {
  if (size == 1) return;
  for (int way = 0; way < 3; way++) {
    comm_barrier_all(comm);
    double start = clock_now(), used = get_cpu_seconds();
    struct comm_request *receive = NULL, *send = NULL;
    char byte = 0, sent = 1;
    int last = size - 1;
    if (rank == last) {
      clock_sleep(0.5);
      for (int r = 0; way > 0 && r < last; r++) {
        send = comm_send_begin(comm, r, 5, &sent, 1);
        comm_wait(comm, &send, "a test message to go out");
      }
    } else if (way > 0) {
      receive = comm_receive_begin(comm, last, 5, &byte, 1);
    }
    if (way == 0) comm_barrier_all(comm);
    if (way == 1 && receive) comm_wait(comm, &receive, "a test message");
    for (int64_t i = 0; way == 2 && receive && !comm_test(&receive); i++) {
      comm_poll(comm);
      comm_back_off(comm, -1, i, "a test message");
    }
    used = get_cpu_seconds() - used;
    double waited = clock_now() - start;
    T_CHECK(waited > 0.45, "waited %g s only", waited);
    T_CHECK(used < 0.2 * waited, "way %d: %g s of a core in %g s of waiting", way, used, waited);
  }
}

/* A short wait must not cost long sleeps: round trips, the best of some batches since the machine may be busy. */
static void test_latency(struct comm *comm) {
  enum { BATCHES = 10, ROUNDS = 40 };
  if (size != 2) return;
  int64_t value = 0;
  double best = 1e30;
  for (int batch = 0; batch < BATCHES; batch++) {
    double start = clock_now();
    for (int i = 0; i < 2 * ROUNDS; i++) {
      struct comm_request *request = rank == i % 2 ? comm_send_begin(comm, 1 - rank, 6, &value, sizeof value)
                                                   : comm_receive_begin(comm, 1 - rank, 6, &value, sizeof value);
      comm_wait(comm, &request, "a round trip");
      if (rank == 1 && i % 2 == 0) value++;
    }
    double each = (clock_now() - start) / ROUNDS;
    if (each < best) best = each;
  }
  T_CHECK(value == BATCHES * ROUNDS, "counted %" PRId64, value);
  T_CHECK(best < 1e-3, "%g s a round trip", best);
}

/* ---- what is known of the others ---- */

static void test_places(struct comm *comm) {
  int on_node = 0;
  for (int r = 0; r < size; r++) {
    on_node += comm_get_node(comm, r) == comm_get_node(comm, rank);
    T_CHECK(comm_get_host(comm, r)[0], "rank %d has no host", r);
  }
  T_CHECK(on_node == comm_get_node_size(comm), "%d ranks on the node, not %d", on_node, comm_get_node_size(comm));
  /* All tests run on one machine, so there is one clock even where MPI is told of several nodes. */
  double offset = comm_get_clock_offset(comm);
  T_CHECK(fabs(offset) < 20e-3, "clock offset %g s", offset);
  if (comm_get_node(comm, rank) == 0) T_CHECK(offset == 0, "clock offset %g on rank 0's node", offset);
  T_CHECK(strlen(comm_get_library()) > 3, "library: %s", comm_get_library());
}

/* Failed checks of all ranks, known to all. */
static void end_all(struct comm *comm) {
  int64_t counts[2] = {t_failures, t_checks}, *all = MEM_NEW(int64_t, 2 * size);
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(comm, counts, sizeof counts, all, offsets);
  for (int r = 0; r < size; r++) {
    t_failures += r == rank ? 0 : (int)all[2 * r];
    t_checks += r == rank ? 0 : (int)all[2 * r + 1];
  }
  mem_free(all);
  mem_free(offsets);
}

int main(int argc, char **argv) {
  struct comm *comm;
  if (comm_open_all(&argc, &argv, false, &comm) != STATUS_OK) {
    fprintf(stderr, "%s\n", error_text());
    return 1;
  }
  rank = comm_get_rank(comm);
  size = comm_get_size(comm);
  watchdog_set_timeout(comm, 60);
  test_places(comm);
  test_pairs(comm, 1 << 16, true);
  test_pairs(comm, 1 << 16, false);
  test_broadcast(comm);
  test_gather(comm);
  test_agree(comm);
  test_latency(comm);
  test_idle(comm);
  test_large(comm);
  comm_barrier_all(comm);
  comm_set_piece(comm, 1024);
  test_pairs(comm, 1024, true);
  test_pairs(comm, 1024, false);
  test_broadcast(comm);
  test_gather(comm);
  test_agree(comm);
  end_all(comm);
  comm_close_all(&comm);
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations left", mem_balance());
  return t_end();
}
