/* Background reads: right bytes, priorities, cancelling, closing, and disks that misbehave. */
#include "tests.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "os/async_read.h"
#include "support/fault_alloc.h"
#include "support/temp_dir.h"

enum { BLOCK = 4096, SIZE = 40 * BLOCK + 1000, READS = 64 };

/* ---- Fixture -------------------------------------------------------------------------------------- */

static struct temp_dir dir;
static unsigned char content[SIZE];
static struct os_file file; /* fd_direct is a second, buffered descriptor: told apart without O_DIRECT */
static struct async_reader *reader;
static unsigned char *memory; /* [SIZE + BLOCK], aligned to BLOCK */

static struct {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    struct async_read *order[READS]; /* completed reads */
    unsigned n;
    bool gated;       /* reads wait at the gate */
    unsigned at_gate; /* reads that have come to it, in all */
    unsigned calls;   /* of pread, since set-up */
    unsigned direct;  /* of them, on fd_direct */
    int failing;      /* the next calls that fail ... */
    int os_errno;     /* ... with this */
    size_t most;      /* bytes a call at most */
    int direct_errno; /* every direct read fails with this, unless 0 */
    off_t bad_from;   /* reads at or past this offset fail with EIO */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static ssize_t disk_pread(int fd, void *dst, size_t len, off_t offset)
{
    int failure = 0;
    pthread_mutex_lock(&disk.lock);
    disk.calls++;
    disk.direct += fd == file.fd_direct;
    disk.at_gate++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.gated) {
        pthread_cond_wait(&disk.changed, &disk.lock);
    }
    if (disk.failing > 0) {
        disk.failing--;
        failure = disk.os_errno;
    } else if (fd == file.fd_direct && disk.direct_errno != 0) {
        failure = disk.direct_errno;
    } else if (offset >= disk.bad_from) {
        failure = EIO;
    } else if (offset >= 0 && (off_t)len > disk.bad_from - offset) {
        len = (size_t)(disk.bad_from - offset);
    }
    len = len < disk.most ? len : disk.most;
    pthread_mutex_unlock(&disk.lock);
    if (failure != 0) {
        errno = failure;
        return -1;
    }
    return fault_real_pread(fd, dst, len, offset);
}

static void set_gate(bool closed)
{
    pthread_mutex_lock(&disk.lock);
    disk.gated = closed;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void wait_at_gate(unsigned n)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.at_gate < n) {
        pthread_cond_wait(&disk.changed, &disk.lock);
    }
    pthread_mutex_unlock(&disk.lock);
}

static void note_done(struct async_read *read)
{
    pthread_mutex_lock(&disk.lock);
    disk.order[disk.n++] = read;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void wait_done(unsigned n)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.n < n) {
        pthread_cond_wait(&disk.changed, &disk.lock);
    }
    pthread_mutex_unlock(&disk.lock);
}

static int set_up(void **state)
{
    (void)state;
    disk.n = disk.at_gate = disk.calls = disk.direct = 0;
    disk.gated = false;
    disk.failing = disk.direct_errno = 0;
    disk.most = SIZE_MAX;
    disk.bad_from = INT64_MAX;
    for (size_t i = 0; i < SIZE; i++) {
        content[i] = (unsigned char)(i * 31 + i / 4096);
    }
    if (temp_dir_make(&dir) != 0) {
        return -1;
    }
    const char *path = temp_dir_write(&dir, "data", content, SIZE);
    if (os_file_open(&file, path, false, NULL) != SLUICE_OK) {
        return -1;
    }
    file.fd_direct = dup(file.fd);
    file.block = BLOCK;
    void *aligned;
    if (posix_memalign(&aligned, BLOCK, SIZE + BLOCK) != 0) {
        return -1;
    }
    memory = aligned;
    memset(memory, 0xEE, SIZE + BLOCK);
    fault_set_pread(disk_pread);
    return 0;
}

static int tear_down(void **state)
{
    async_reader_close(&reader);
    fault_reset(state);
    os_file_close(&file);
    free(memory);
    return temp_dir_remove(&dir);
}

static void open_reader(unsigned n_threads)
{
    assert_int_equal(async_reader_open(&reader, n_threads, NULL), SLUICE_OK);
}

/* A request for [offset, offset + len) into the same place of memory. */
static struct async_read request(uint64_t offset, uint32_t len, enum async_priority priority)
{
    return (struct async_read){.file = &file,
                               .dst = memory + offset,
                               .offset = offset,
                               .len = len,
                               .needed = len,
                               .priority = priority,
                               .done = note_done};
}

static void assert_read(const struct async_read *read)
{
    assert_int_equal(read->os_errno, 0);
    assert_int_equal(read->got, read->len);
    assert_memory_equal(read->dst, content + read->offset, read->len);
}

/* ---- Right bytes ---------------------------------------------------------------------------------- */

static void reads_deliver(void **state)
{
    (void)state;
    struct async_read reads[40];
    open_reader(4);
    for (uint32_t i = 0; i < 40; i++) {
        reads[i] = request((uint64_t)i * BLOCK, BLOCK, i % 3 == 0 ? ASYNC_SPECULATIVE : ASYNC_DEMAND);
        async_reader_submit(reader, &reads[i]);
    }
    wait_done(40);
    for (size_t i = 0; i < 40; i++) {
        assert_read(&reads[i]);
    }
    assert_int_equal(disk.direct, 40);
}

static void alignment_decides_the_descriptor(void **state)
{
    (void)state;
    struct async_read reads[] = {request(0, BLOCK, ASYNC_DEMAND), request(BLOCK, 2 * BLOCK, ASYNC_DEMAND),
                                 request(1, BLOCK, ASYNC_DEMAND), request(0, BLOCK + 1, ASYNC_DEMAND),
                                 request(0, BLOCK, ASYNC_DEMAND)};
    static const unsigned direct[] = {1, 1, 0, 0, 0};
    reads[4].dst = memory + 1;
    open_reader(1);
    for (unsigned i = 0; i < 5; i++) {
        disk.direct = 0;
        async_reader_submit(reader, &reads[i]);
        wait_done(i + 1);
        assert_read(&reads[i]);
        assert_int_equal(disk.direct, direct[i]);
    }
    close(file.fd_direct);
    file.fd_direct = -1;
    disk.direct = 0;
    async_reader_submit(reader, &reads[0]);
    wait_done(6);
    assert_read(&reads[0]);
    assert_int_equal(disk.direct, 0);
}

static void nothing_is_a_read_too(void **state)
{
    (void)state;
    struct async_read read = request(5, 0, ASYNC_DEMAND);
    read.os_errno = 77;
    read.got = 77;
    open_reader(1);
    async_reader_submit(reader, &read);
    wait_done(1);
    assert_int_equal(read.os_errno, 0);
    assert_int_equal(read.got, 0);
}

static void real_direct_reads_deliver(void **state)
{
    (void)state;
    struct os_file direct;
    assert_int_equal(os_file_open(&direct, file.path, true, NULL), SLUICE_OK);
    struct async_read read = request(0, 41 * BLOCK, ASYNC_DEMAND); /* past the end by less than a block */
    read.file = &direct;
    read.needed = SIZE;
    open_reader(2);
    async_reader_submit(reader, &read);
    wait_done(1);
    os_file_close(&direct);
    assert_int_equal(read.os_errno, 0);
    assert_int_equal(read.got, SIZE);
    assert_memory_equal(memory, content, SIZE);
}

/* ---- The end of the file -------------------------------------------------------------------------- */

static void end_of_file_counts_what_is_needed(void **state)
{
    (void)state;
    static const struct {
        uint32_t needed;
        int os_errno;
    } cases[] = {{0, 0}, {999, 0}, {1000, 0}, {1001, ENODATA}, {BLOCK, ENODATA}};
    open_reader(1);
    for (unsigned i = 0; i < 5; i++) {
        struct async_read read = request(40 * BLOCK, BLOCK, ASYNC_DEMAND);
        read.needed = cases[i].needed;
        async_reader_submit(reader, &read);
        wait_done(i + 1);
        assert_int_equal(read.os_errno, cases[i].os_errno);
        assert_int_equal(read.got, 1000);
        assert_memory_equal(read.dst, content + 40 * BLOCK, 1000);
        assert_int_equal(memory[SIZE], 0xEE);
    }
    struct async_read beyond = request(0, BLOCK, ASYNC_DEMAND);
    beyond.offset = UINT64_C(1) << 40;
    async_reader_submit(reader, &beyond);
    wait_done(6);
    assert_int_equal(beyond.os_errno, ENODATA);
    assert_int_equal(beyond.got, 0);
}

static void file_that_shrank_is_no_data(void **state)
{
    (void)state;
    struct async_read read = request(0, 4 * BLOCK, ASYNC_DEMAND);
    assert_int_equal(truncate(file.path, 2 * BLOCK), 0);
    open_reader(1);
    async_reader_submit(reader, &read);
    wait_done(1);
    assert_int_equal(read.os_errno, ENODATA);
    assert_int_equal(read.got, 2 * BLOCK);
}

/* ---- Disks that misbehave ------------------------------------------------------------------------- */

static void run_one(struct async_read *read)
{
    unsigned before = disk.n;
    async_reader_submit(reader, read);
    wait_done(before + 1);
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    struct async_read read = request(0, 4 * BLOCK, ASYNC_DEMAND);
    open_reader(1);
    disk.failing = 5;
    disk.os_errno = EINTR;
    disk.most = BLOCK;
    run_one(&read);
    assert_read(&read);
    assert_int_equal(disk.direct, 9);

    disk.failing = 50;
    disk.os_errno = EAGAIN;
    run_one(&read);
    assert_read(&read);

    disk.most = 1000; /* leaves a rest that is not aligned: on through the buffered descriptor */
    disk.direct = 0;
    run_one(&read);
    assert_read(&read);
    assert_int_equal(disk.direct, 1);
}

static void busy_disks_are_given_up(void **state)
{
    (void)state;
    struct async_read read = request(0, BLOCK, ASYNC_DEMAND);
    open_reader(1);
    disk.failing = 1000000;
    disk.os_errno = EAGAIN;
    run_one(&read);
    assert_int_equal(read.os_errno, EAGAIN);
    disk.failing = 0;
    run_one(&read);
    assert_read(&read);
}

static void refused_direct_reads_fall_back(void **state)
{
    (void)state;
    struct async_read read = request(0, 2 * BLOCK, ASYNC_DEMAND);
    open_reader(1);
    disk.direct_errno = EINVAL;
    run_one(&read);
    assert_read(&read);
    assert_int_equal(disk.direct, 1);
    assert_int_equal(disk.calls, 2);

    disk.direct_errno = EIO; /* a broken disk is no reason to read it again */
    run_one(&read);
    assert_int_equal(read.os_errno, EIO);
    assert_int_equal(read.got, 0);
}

static void failing_disk_fails_its_read_alone(void **state)
{
    (void)state;
    struct async_read read = request(0, 4 * BLOCK, ASYNC_DEMAND);
    struct async_read other = request(8 * BLOCK, BLOCK, ASYNC_DEMAND);
    open_reader(1);
    disk.bad_from = 3 * BLOCK;
    run_one(&read);
    assert_int_equal(read.os_errno, EIO);
    assert_int_equal(read.got, 3 * BLOCK);
    read.needed = 3 * BLOCK; /* what is needed arrived before the bad place */
    run_one(&read);
    assert_int_equal(read.os_errno, 0);
    disk.bad_from = INT64_MAX;
    run_one(&other);
    assert_read(&other);

    struct os_file closed = {.fd = -1, .fd_direct = -1, .block = BLOCK};
    other.file = &closed;
    run_one(&other);
    assert_int_equal(other.os_errno, EBADF);
    other.file = &file;
    other.offset = UINT64_MAX - 10; /* no offset that a file can have */
    run_one(&other);
    assert_int_equal(other.os_errno, EINVAL);
}

/* ---- Order, cancelling, closing ------------------------------------------------------------------- */

static void assert_order(const struct async_read *const *expected, unsigned n)
{
    assert_int_equal(disk.n, n);
    for (unsigned i = 0; i < n; i++) {
        assert_ptr_equal(disk.order[i], expected[i]);
    }
}

static void demand_goes_before_speculation(void **state)
{
    (void)state;
    struct async_read reads[5];
    static const enum async_priority priority[] = {ASYNC_DEMAND, ASYNC_SPECULATIVE, ASYNC_DEMAND, ASYNC_SPECULATIVE,
                                                   ASYNC_DEMAND};
    open_reader(1);
    set_gate(true);
    for (unsigned i = 0; i < 5; i++) {
        reads[i] = request((uint64_t)i * BLOCK, BLOCK, priority[i]);
        async_reader_submit(reader, &reads[i]);
        wait_at_gate(1); /* the first is in flight before the others are queued */
    }
    set_gate(false);
    wait_done(5);
    const struct async_read *const expected[] = {&reads[0], &reads[2], &reads[4], &reads[1], &reads[3]};
    assert_order(expected, 5);
}

static void cancel_takes_one_users_requests(void **state)
{
    (void)state;
    struct async_read reads[7];
    int users[2];
    open_reader(1);
    set_gate(true);
    for (unsigned i = 0; i < 7; i++) {
        reads[i] = request((uint64_t)i * BLOCK, BLOCK, i % 2 == 0 ? ASYNC_DEMAND : ASYNC_SPECULATIVE);
        reads[i].user = &users[i == 0 || i == 2 || i == 3 || i == 6];
        async_reader_submit(reader, &reads[i]);
        wait_at_gate(1);
    }
    async_reader_cancel(reader, &users[1]); /* the first is in flight and stays */
    assert_int_equal(disk.n, 3);
    async_reader_cancel(reader, &users[1]);
    async_reader_cancel(reader, NULL);
    assert_int_equal(disk.n, 3);
    set_gate(false);
    wait_done(7);
    const struct async_read *const expected[] = {&reads[2], &reads[6], &reads[3], &reads[0],
                                                 &reads[4], &reads[1], &reads[5]};
    assert_order(expected, 7);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(expected[i]->os_errno, ECANCELED);
        assert_int_equal(expected[i]->got, 0);
        assert_read(expected[i + 3]);
    }
    run_one(&reads[2]); /* the queues still work, and a cancelled request can be submitted again */
    assert_read(&reads[2]);
}

static void *open_gate_later(void *arg)
{
    (void)arg;
    usleep(2000);
    set_gate(false);
    return NULL;
}

static void close_cancels_and_waits(void **state)
{
    (void)state;
    struct async_read reads[6];
    pthread_t thread;
    open_reader(2);
    set_gate(true);
    for (unsigned i = 0; i < 6; i++) {
        reads[i] = request((uint64_t)i * BLOCK, BLOCK, ASYNC_DEMAND);
        async_reader_submit(reader, &reads[i]);
        wait_at_gate(i < 2 ? i + 1 : 2);
    }
    assert_int_equal(pthread_create(&thread, NULL, open_gate_later, NULL), 0);
    async_reader_close(&reader);
    assert_null(reader);
    assert_int_equal(disk.n, 6);
    assert_read(&reads[0]);
    assert_read(&reads[1]);
    for (unsigned i = 2; i < 6; i++) {
        assert_int_equal(reads[i].os_errno, ECANCELED);
        assert_ptr_equal(disk.order[i - 2], &reads[i]);
    }
    pthread_join(thread, NULL);
    async_reader_close(&reader); /* safe on a closed one */
}

/* A chain: each completed read submits the next, until one is cancelled. */
static void submit_next(struct async_read *read)
{
    unsigned *left = read->user;
    if (read->os_errno == 0 && *left > 0) {
        --*left;
        read->offset = (read->offset + BLOCK) % (40 * BLOCK);
        async_reader_submit(reader, read);
        return;
    }
    note_done(read);
}

static void done_may_submit(void **state)
{
    (void)state;
    struct async_read reads[3];
    unsigned left[3] = {100, 200, 300};
    open_reader(2);
    for (unsigned i = 0; i < 3; i++) {
        reads[i] = request(0, BLOCK, i % 2 == 0 ? ASYNC_DEMAND : ASYNC_SPECULATIVE);
        reads[i].dst = memory + (size_t)i * BLOCK;
        reads[i].done = submit_next;
        reads[i].user = &left[i];
        async_reader_submit(reader, &reads[i]);
    }
    wait_done(3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(left[i], 0);
        assert_read(&reads[i]);
    }
}

static void done_may_submit_while_closing(void **state)
{
    (void)state;
    struct async_read read = request(0, BLOCK, ASYNC_DEMAND);
    unsigned left = UINT32_MAX;
    open_reader(2);
    read.done = submit_next;
    read.user = &left;
    async_reader_submit(reader, &read);
    usleep(500);
    struct async_reader *closing = reader; /* submit_next goes on using `reader` until the close is over */
    async_reader_close(&closing);
    reader = NULL;
    assert_int_equal(disk.n, 1);
    assert_int_equal(read.os_errno, ECANCELED);
}

static void submitting_allocates_nothing(void **state)
{
    (void)state;
    struct async_read reads[READS];
    open_reader(3);
    fault_alloc_fail(-1);
    for (unsigned i = 0; i < READS; i++) {
        reads[i] = request((i % 40) * BLOCK, BLOCK, ASYNC_DEMAND);
        reads[i].dst = memory;
        reads[i].needed = 0;
        reads[i].len = 0;
        async_reader_submit(reader, &reads[i]);
    }
    wait_done(READS);
    assert_int_equal(fault_alloc_count(), 0);
}

/* ---- Opening -------------------------------------------------------------------------------------- */

static void reader_has_a_name(void **state)
{
    (void)state;
    open_reader(8);
    assert_string_equal(async_reader_name(reader), "pread x8");
}

static void reader_open_fails_cleanly(void **state)
{
    (void)state;
    sluice_error err;
    struct async_reader *opened = NULL;
    assert_int_equal(async_reader_open(&opened, 0, &err), SLUICE_INVALID);
    assert_string_equal(err.message, "reader: 0 threads, must be from 1 to 256");
    assert_int_equal(async_reader_open(&opened, 257, &err), SLUICE_INVALID);
    fault_alloc_fail(0);
    assert_int_equal(async_reader_open(&opened, 2, &err), SLUICE_NO_MEMORY);
    for (int nth = 0; nth < 3; nth++) {
        fault_fail(FAULT_THREAD, nth, EAGAIN);
        assert_int_equal(async_reader_open(&opened, 3, &err), SLUICE_NO_MEMORY);
        assert_int_equal(err.os_errno, EAGAIN);
    }
    assert_string_equal(err.message, "reader: cannot start thread 3 of 3: Resource temporarily unavailable");
    assert_null(opened);
}

#define READ_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int run_async_read_tests(void)
{
    static const struct CMUnitTest tests[] = {
        READ_TEST(reads_deliver),
        READ_TEST(alignment_decides_the_descriptor),
        READ_TEST(nothing_is_a_read_too),
        READ_TEST(real_direct_reads_deliver),
        READ_TEST(end_of_file_counts_what_is_needed),
        READ_TEST(file_that_shrank_is_no_data),
        READ_TEST(interrupted_and_short_reads_go_on),
        READ_TEST(busy_disks_are_given_up),
        READ_TEST(refused_direct_reads_fall_back),
        READ_TEST(failing_disk_fails_its_read_alone),
        READ_TEST(demand_goes_before_speculation),
        READ_TEST(cancel_takes_one_users_requests),
        READ_TEST(close_cancels_and_waits),
        READ_TEST(done_may_submit),
        READ_TEST(done_may_submit_while_closing),
        READ_TEST(submitting_allocates_nothing),
        READ_TEST(reader_has_a_name),
        READ_TEST(reader_open_fails_cleanly),
    };
    return cmocka_run_group_tests_name("background reads", tests, NULL, NULL);
}
