/* Threads that share the work of a call: see kernels.h.

   Pieces of work are handed out one by one, so that a thread that is late, or never gets a processor, holds up nobody
   for longer than a piece. The threads are begun with the first work that is shared and wait for more until the process
   ends; a forked process begins its own.

   Sharing must not cost more than it brings. Little work is shared only with threads that are looking for some, since
   waking one costs as much as a small loop. Who had its processor for a part of the time only works alone for a while:
   others use the cores, and a thread that looks for work would take them from its caller. The first such rest is short,
   since it may have been for a moment; they get longer while it goes on. */

#define _POSIX_C_SOURCE 200809L

#include "kernels.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST_THREADS = 64 };
enum { PATIENCE = 8000 };           /* looks for more work, some 200 microseconds, before a thread goes to sleep */
enum { LEAST = 150 };               /* microseconds of work that are worth waking up a thread */
enum { PERIOD = 20000000, REST = 500000000 }; /* nanoseconds that are looked at, and that a thread at most works alone */
enum { PERCENT = 92 };              /* of a period that a thread must have had its processor to go on sharing */

#if defined(__x86_64__) || defined(__i386__)
#define pause_shortly() __builtin_ia32_pause()
#else
#define pause_shortly() ((void)0)
#endif

typedef struct {
    pthread_mutex_t turn;                /* held by the caller whose work is shared; others work alone meanwhile */
    pthread_mutex_t lock;                /* of all below but `next` */
    pthread_cond_t begun, ended;
    int64_t threads, joined, limit, pieces;
    Task task;
    void *about;
    int open;                            /* whether threads may join in */
    _Atomic int64_t call, active, next;  /* calls so far, threads at work besides the caller, the next piece */
    _Atomic int64_t looking;             /* threads that look for more work */
} Pool;

#define FRESH                                                                                                         \
    {.turn = PTHREAD_MUTEX_INITIALIZER,                                                                               \
     .lock = PTHREAD_MUTEX_INITIALIZER,                                                                               \
     .begun = PTHREAD_COND_INITIALIZER,                                                                               \
     .ended = PTHREAD_COND_INITIALIZER}

static Pool pool = FRESH;
static _Thread_local int64_t wanted = 1;
static _Thread_local int64_t began, worked; /* when a period began, and processor time by then */
static _Thread_local int64_t rest_end, rest_length; /* of the last one: when it ends or has ended */
static _Atomic int64_t least = -1;

/* How many threads share the work of calls from this thread; returns what it was before. */
int64_t set_threads(int64_t threads) {
    const int64_t before = wanted;
    wanted = threads < 1 ? 1 : smaller(threads, MOST_THREADS);
    return before;
}

/* Share all work that takes so many microseconds, whatever threads do; -1, as it begins, decides by them. For tests. */
void share_from(int64_t microseconds) { least = microseconds; }

int64_t sharing_threads(void) { return wanted; }

static void do_pieces(Task task, void *about, int64_t pieces, int64_t slot) {
    for (int64_t piece; (piece = atomic_fetch_add(&pool.next, 1)) < pieces;) task(about, piece, slot);
}

static void *wait_and_work(void *unused) {
    int64_t seen = 0;
    for (;;) {
        atomic_fetch_add(&pool.looking, 1);
        for (int i = 0; i < PATIENCE && atomic_load(&pool.call) == seen; i++) pause_shortly();
        atomic_fetch_sub(&pool.looking, 1);
        pthread_mutex_lock(&pool.lock);
        while (atomic_load(&pool.call) == seen) pthread_cond_wait(&pool.begun, &pool.lock);
        seen = atomic_load(&pool.call);
        const int joining = pool.open && pool.joined < pool.limit;
        const int64_t slot = joining ? ++pool.joined : 0, pieces = pool.pieces;
        const Task task = pool.task;
        void *about = pool.about;
        if (joining) atomic_fetch_add(&pool.active, 1);
        pthread_mutex_unlock(&pool.lock);
        if (!joining) continue;
        do_pieces(task, about, pieces, slot);
        pthread_mutex_lock(&pool.lock);
        if (atomic_fetch_sub(&pool.active, 1) == 1) pthread_cond_signal(&pool.ended);
        pthread_mutex_unlock(&pool.lock);
    }
    return unused;
}

/* In a forked process there is one thread, whatever the others were doing. */
static void forget(void) {
    const Pool fresh = FRESH;
    memcpy(&pool, &fresh, sizeof pool);
}

static void register_forget(void) { pthread_atfork(0, 0, forget); }

/* Begin threads until there are so many; if the system gives no more, there are fewer. They take no signals. */
static void begin_threads(int64_t threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t all, before;
    pthread_t thread;
    if (pool.threads >= threads) return;
    pthread_once(&once, register_forget);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.threads < threads && !pthread_create(&thread, 0, wait_and_work, 0)) {
        pthread_detach(thread);
        pool.threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether others use the cores, by how much of the last period this thread had its processor. Periods that are much
   too long say nothing: nobody asked meanwhile. */
static int others_work(void) {
    const int64_t now = nanoseconds(CLOCK_MONOTONIC), passed = now - began;
    if (now < rest_end) return 1;
    if (passed > PERIOD || began < rest_end) {
        const int64_t before = worked;
        worked = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        if (began >= rest_end && passed < 5 * PERIOD) {
            const int alone = 100 * (worked - before) < PERCENT * passed;
            rest_length = alone ? smaller(rest_length ? 2 * rest_length : PERIOD, REST) : rest_length / 2;
            if (alone) rest_end = now + rest_length;
        }
        began = now;
    }
    return now < rest_end;
}

/* Whether so many microseconds of work are worth other threads now. */
static int pays(int64_t work) {
    if (least >= 0) return work >= least;
    return work >= (atomic_load(&pool.looking) ? LITTLE : LEAST) && !others_work();
}

void share(Task task, void *about, int64_t pieces, int64_t work) {
    if (wanted < 2 || pieces < 2 || !pays(work) || pthread_mutex_trylock(&pool.turn)) {
        for (int64_t piece = 0; piece < pieces; piece++) task(about, piece, 0);
        return;
    }
    begin_threads(wanted - 1);
    pthread_mutex_lock(&pool.lock);
    pool.task = task;
    pool.about = about;
    pool.pieces = pieces;
    pool.limit = wanted - 1;
    pool.joined = 0;
    pool.open = 1;
    atomic_store(&pool.next, 0);
    atomic_fetch_add(&pool.call, 1);
    pthread_cond_broadcast(&pool.begun);
    pthread_mutex_unlock(&pool.lock);
    do_pieces(task, about, pieces, 0);
    pthread_mutex_lock(&pool.lock);
    pool.open = 0; /* who wakes up from now on finds nothing to do */
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < PATIENCE && atomic_load(&pool.active); i++) pause_shortly();
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.active)) pthread_cond_wait(&pool.ended, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.turn);
}
