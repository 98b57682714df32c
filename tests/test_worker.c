/* Jobs beside the main thread, and the copies of the CPU device that are such jobs: both ways at once, in order, over
 * memory that was never written; done all the same where the system has no more threads. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/worker.h"
#include "device/device.h"
#include "t.h"

/* ---- jobs ---- */

struct job {
  pthread_t thread;
  int runs;
  double begun, ended;
  volatile bool goes_on; /* until then it does not end */
  bool waits;
};

static void do_job(void *context) {
  struct job *job = context;
  job->begun = clock_now();
  job->thread = pthread_self();
  job->runs++;
  for (double end = job->begun + 10;
       job->waits && !__atomic_load_n(&job->goes_on, __ATOMIC_ACQUIRE) && clock_now() < end;)
    sched_yield();
  job->ended = clock_now();
}

static void wait_for(struct worker *w, double *start, double *end) {
  for (double limit = clock_now() + 10; !worker_test(w, start, end);)
    if (clock_now() > limit) {
      T_CHECK(false, "a job does not end");
      return;
    }
}

static void test_jobs(void) {
  struct worker *w = worker_create(NULL, 0);
  double start = 1, end = 1;
  T_CHECK(worker_test(w, &start, &end) && start == 0 && end == 0, "no job, but times %g %g", start, end);
  for (int i = 0; i < 300; i++) {
    struct job job = {.waits = i % 3 == 0};
    double before = clock_now();
    worker_begin(w, do_job, &job);
    if (job.waits) {
      T_CHECK(!worker_test(w, &start, &end) && start == 0 && end == 0, "a job ends before it may");
      __atomic_store_n(&job.goes_on, true, __ATOMIC_RELEASE);
    }
    wait_for(w, &start, &end);
    T_CHECK(job.runs == 1 && !pthread_equal(job.thread, pthread_self()), "job %d ran %d times", i, job.runs);
    T_CHECK(before <= start && start <= job.begun && job.ended <= end && end <= clock_now(),
            "job %d ran from %g to %g, not %g to %g", i, job.begun, job.ended, start, end);
    double again[2];
    T_CHECK(worker_test(w, &again[0], &again[1]) && again[0] == start && again[1] == end, "a second look differs");
  }
  worker_destroy(&w);
  T_CHECK(!w, "destroyed");
  worker_destroy(&w);
}

static void spin(void *context) {
  for (double end = clock_now() + *(double *)context; clock_now() < end;) continue;
}

/* A job that sleeps keeps no core busy; one that computes does, for as long as it is let. */
static void rest(void *context) { clock_sleep(*(double *)context); }

static void test_cpu(void) {
  struct worker *w = worker_create(NULL, 0);
  double seconds = 0.05, start, end;
  T_CHECK(worker_get_cpu(w) == 0, "%g s before any job", worker_get_cpu(w));
  worker_begin(w, rest, &seconds);
  wait_for(w, &start, &end);
  double idle = worker_get_cpu(w);
  T_CHECK(idle < 0.02, "asleep for %g s", idle);
  for (int i = 0; i < 2; i++) {
    worker_begin(w, spin, &seconds);
    wait_for(w, &start, &end);
  }
  T_CHECK(worker_get_cpu(w) > idle + 0.001 && worker_get_cpu(w) < idle + 0.101, "%g s of 0.1", worker_get_cpu(w));
  worker_destroy(&w);
}

/* What has begun is done before the worker is gone; two workers do not wait for each other. */
static void test_two(void) {
  struct worker *a = worker_create(NULL, 0), *b = worker_create(NULL, 0);
  struct job first = {.waits = true}, second = {0};
  double start, end;
  worker_begin(a, do_job, &first);
  worker_begin(b, do_job, &second);
  wait_for(b, &start, &end);
  T_CHECK(second.runs == 1 && !worker_test(a, &start, &end), "the first has ended");
  __atomic_store_n(&first.goes_on, true, __ATOMIC_RELEASE);
  worker_destroy(&a);
  T_CHECK(first.runs == 1 && first.ended > 0, "destroyed before its job was done");
  worker_destroy(&b);
}

static void get_policy(void *context) { *(int *)context = sched_getscheduler(0); }

/* Else whoever gives a job away would wait for it on a core that both have to use. */
static void test_policy(void) {
  int own = sched_getscheduler(0), policy = -1;
  double start, end;
  struct worker *w = worker_create(NULL, 0);
  worker_begin(w, get_policy, &policy);
  wait_for(w, &start, &end);
  T_CHECK(policy == (own == SCHED_OTHER ? SCHED_BATCH : own), "policy %d beside %d", policy, own);
  T_CHECK(sched_getscheduler(0) == own, "the caller's own policy has changed");
  worker_destroy(&w);
}

static void get_core(void *context) { *(int *)context = sched_getcpu(); }

static void test_cores(void) {
  cpu_set_t own;
  double start, end;
  if (sched_getaffinity(0, sizeof own, &own)) return;
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &own)) continue;
    int ran = -1;
    struct worker *w = worker_create(&core, 1);
    for (int i = 0; i < 3; i++) { /* bound before its second job at the latest */
      worker_begin(w, get_core, &ran);
      wait_for(w, &start, &end);
    }
    T_CHECK(ran == core, "bound to core %d, ran on %d", core, ran);
    worker_destroy(&w);
  }
}

/* ---- copies ---- */

enum { N = 1 << 20 };

static struct device *open_device(void) {
  struct device *device = NULL;
  struct device_config config = {.threads = 1, .limit = 16 << 20, .host_limit = 4 * N, .poison = true};
  T_CHECK(!device_find("cpu")->open(&config, &device), "%s", error_text());
  return device;
}

static void wait_for_copy(struct device *d, enum copy_way way) {
  double start, end;
  for (double limit = clock_now() + 10; !d->ops->copy_test(d, way, &start, &end);)
    if (clock_now() > limit) {
      T_CHECK(false, "a copy does not end");
      return;
    }
  T_CHECK(0 < start && start <= end && end <= clock_now(), "a copy from %g to %g", start, end);
}

/* Blocks of several parts go out while others come in; what waits in host memory keeps its bytes while its old place is
 * used for something else. */
static void test_copies(void) {
  struct device *d = open_device();
  int sizes[3] = {1000, N / 3, 64};
  unsigned char *parts[2][3], *host[2];
  for (int b = 0; b < 2; b++) {
    host[b] = d->ops->alloc_host(d, N, "a block");
    for (int k = 0; k < 3; k++) parts[b][k] = d->ops->alloc(d, sizes[k], "a part");
  }
  for (int turn = 0; turn < 40; turn++) {
    struct copy_part out[3], in[3];
    int64_t at = 0;
    for (int k = 0; k < 3; k++) {
      memset(parts[0][k], 2 * turn + k, (size_t)sizes[k]);
      memset(host[1] + at, turn + 100 + k, (size_t)sizes[k]);
      out[k] = (struct copy_part){host[0] + at, parts[0][k], sizes[k]};
      in[k] = (struct copy_part){parts[1][k], host[1] + at, sizes[k]};
      at += sizes[k];
    }
    d->ops->copy_begin(d, COPY_OUT, out, 3);
    d->ops->copy_begin(d, COPY_IN, in, 3);
    memset(out, 0, sizeof out); /* the device has its own list */
    memset(in, 0, sizeof in);
    wait_for_copy(d, turn % 2 ? COPY_IN : COPY_OUT);
    wait_for_copy(d, turn % 2 ? COPY_OUT : COPY_IN);
    at = 0;
    for (int k = 0; k < 3; k++) {
      int wrong = 0;
      memset(parts[0][k], 0xee, (size_t)sizes[k]);
      for (int i = 0; i < sizes[k]; i++)
        wrong += host[0][at + i] != (unsigned char)(2 * turn + k) || parts[1][k][i] != (unsigned char)(turn + 100 + k);
      T_CHECK(wrong == 0, "turn %d: %d bytes of part %d are wrong", turn, wrong, k);
      at += sizes[k];
    }
  }
  T_CHECK(d->ops->get_host_memory(d).used == 2 * N && d->ops->get_host_memory(d).peak == 2 * N,
          "host memory: %lld used", (long long)d->ops->get_host_memory(d).used);
  for (int b = 0; b < 2; b++) {
    d->ops->free_host(d, host[b]);
    for (int k = 0; k < 3; k++) d->ops->free(d, parts[b][k]);
  }
  d->ops->close(&d);
}

/* Host memory has a limit of its own, and is full of NaNs until a block is there. */
static void test_host(void) {
  struct device *d = open_device();
  T_CHECK(d->ops->get_host_memory(d).used == 0 && d->ops->get_host_memory(d).limit == 4 * N, "host memory at first");
  float *block = d->ops->alloc_host(d, 3 * N, "a block");
  T_CHECK(block && isnan(block[0]) && isnan(block[3 * N / 4 - 1]), "new host memory has numbers");
  T_CHECK(!d->ops->alloc_host(d, N + 1, "block Z"), "beyond the limit");
  T_CHECK(strstr(error_text(), "block Z") && strstr(error_text(), "memory.host_limit"), "%s", error_text());
  T_CHECK(d->ops->get_memory(d).used == 0, "host memory is counted as the device's");
  void *rest = d->ops->alloc_host(d, N, "the rest");
  T_CHECK(rest, "%s", error_text());
  d->ops->free_host(d, rest);
  d->ops->free_host(d, block);
  d->ops->free_host(d, NULL);
  d->ops->reset_peak(d);
  T_CHECK(d->ops->get_host_memory(d).used == 0 && d->ops->get_host_memory(d).peak == 0, "host memory at the end");
  d->ops->close(&d);
}

/* ---- no more threads ---- */

static void work_without_threads(void) {
  struct job job = {0};
  double start, end;
  struct worker *w = worker_create(NULL, 0);
  worker_begin(w, do_job, &job);
  T_CHECK(job.runs == 1 && pthread_equal(job.thread, pthread_self()), "the job was not done by the main thread");
  T_CHECK(worker_test(w, &start, &end) && start > 0 && end >= start, "from %g to %g", start, end);
  worker_destroy(&w);
  test_copies();
}

static void *end_at_once(void *context) { return context; }

/* The limit on processes does not hold root: then address space for stacks is what is short. */
static bool take_threads_away(void) {
  struct rlimit none = {0, 0};
  pthread_t thread;
  pthread_attr_t attributes;
  if (geteuid() != 0) {
    setrlimit(RLIMIT_NPROC, &none);
  } else {
    pthread_attr_init(&attributes);
    /* A stack as large as the address space of a process cannot be had. */
    T_CHECK(!pthread_attr_setstacksize(&attributes, (size_t)1 << 46), "no such stack");
    T_CHECK(!pthread_setattr_default_np(&attributes), "no default");
    pthread_attr_destroy(&attributes);
  }
  bool has = !pthread_create(&thread, NULL, end_at_once, NULL);
  if (has) pthread_join(thread, NULL);
  return !has;
}

static void test_no_threads(void) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    t_failures = 0;
    if (take_threads_away())
      work_without_threads();
    else
      fprintf(stderr, "threads cannot be taken away here: not tested without\n");
    fflush(NULL);
    _exit(t_failures ? 1 : 0);
  }
  int how = 0;
  T_CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0, "a child ended with %x", how);
}

int main(void) {
  test_no_threads();
  test_jobs();
  test_cpu();
  test_two();
  test_policy();
  test_cores();
  test_copies();
  test_host();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
