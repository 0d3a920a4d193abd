/* Failures in the middle of things: a disk that fails, memory that runs out, threads that do not start. And what
 * must not happen at all: a weight read for a plan that does not fit, an allocation while decoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "engine/demo.h"
#include "support/fault_alloc.h"

/* ---- Reads ---------------------------------------------------------------------------------------- */

static atomic_int reads;               /* since reset_reads */
static atomic_int failing_read = -1;   /* number of the read that fails */
static atomic_int reads_behind_header; /* of a shard: bytes that are weights */

ssize_t __real_pread(int fd, void *dst, size_t len, off_t offset);
ssize_t __real_pread64(int fd, void *dst, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t offset);

static void reset_reads(int failing)
{
    atomic_store(&reads, 0);
    atomic_store(&reads_behind_header, 0);
    atomic_store(&failing_read, failing);
}

/* True for a read past a shard's header. The first block does not count: opening tests with it whether direct
 * reads are granted. */
static bool touches_weights(int fd, size_t len, off_t offset)
{
    enum { BLOCK = 4096 };
    char link[64], path[1024];
    uint64_t header = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (strstr(path, ".safetensors") == NULL) {
        return false;
    }
    int own = open(path, O_RDONLY);
    bool known = own >= 0 && __real_pread(own, &header, sizeof header, 0) == sizeof header;
    close(own);
    uint64_t end = (uint64_t)offset + len;
    return !known || (end > header + sizeof header && end > BLOCK);
}

static bool read_fails(int fd, size_t len, off_t offset)
{
    atomic_fetch_add(&reads_behind_header, touches_weights(fd, len, offset));
    return atomic_fetch_add(&reads, 1) == atomic_load(&failing_read);
}

ssize_t __wrap_pread(int fd, void *dst, size_t len, off_t offset)
{
    if (read_fails(fd, len, offset)) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, dst, len, offset);
}

ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t offset)
{
    if (read_fails(fd, len, offset)) {
        errno = EIO;
        return -1;
    }
    return __real_pread64(fd, dst, len, offset);
}

/* ---- Mappings and threads ------------------------------------------------------------------------- */

static atomic_int failing_map = -1;
static atomic_int failing_thread = -1;

void *__real_mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset);
void *__real_mmap64(void *address, size_t len, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t len, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);

void *__wrap_mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (atomic_fetch_sub(&failing_map, 1) == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, len, protection, flags, fd, offset);
}

void *__wrap_mmap64(void *address, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (atomic_fetch_sub(&failing_map, 1) == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap64(address, len, protection, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    if (atomic_fetch_sub(&failing_thread, 1) == 0) {
        return EAGAIN;
    }
    return __real_pthread_create(thread, attributes, run, arg);
}

static int reset(void **state)
{
    (void)state;
    reset_reads(-1);
    fault_alloc_fail(-1);
    atomic_store(&failing_map, -1);
    atomic_store(&failing_thread, -1);
    return 0;
}

/* ---- Disk ----------------------------------------------------------------------------------------- */

/* Few slots, so that every token reads. */
static sluice_engine *open_small(void)
{
    sluice_engine_options options = demo_options();
    options.memory_limit = demo_least_memory(&options);
    return demo_open(&options);
}

static void test_no_weight_for_a_refused_plan(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    sluice_engine *engine = NULL;
    sluice_plan plan;
    sluice_error error = {0};
    options.memory_limit = 1;
    reset_reads(-1);
    assert_int_equal(sluice_engine_open(&engine, &options, &error), SLUICE_LIMIT);
    assert_int_equal(sluice_plan_compute(&plan, &options, &error), SLUICE_OK);
    assert_false(plan.fits);
    assert_true(atomic_load(&reads) > 0);
    assert_int_equal(atomic_load(&reads_behind_header), 0);
    engine = demo_open(NULL);
    assert_true(atomic_load(&reads_behind_header) > 0); /* the test would see it */
    demo_close(&engine);
}

/* Fails one read of an answer, each time a later one, and goes on: the parts make up the undisturbed answer. */
static void test_disk_fails_during_an_answer(void **state)
{
    (void)state;
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = open_small();
    static const int moments[] = {0, 1, 3, 17, 60, 150};
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        struct demo_text text;
        sluice_stop stop = SLUICE_STOP_LIMIT;
        sluice_error error = {0};
        sluice_session *session = demo_question(engine);
        const sluice_generate_options options = demo_generate_options(&text);
        reset_reads(moments[i]);
        assert_int_equal(sluice_session_generate(session, &options, &stop, NULL, &error), SLUICE_IO);
        assert_int_equal(error.os_errno, EIO);
        assert_non_null(strstr(error.message, ".safetensors"));
        assert_int_equal(stop, SLUICE_STOP_LIMIT); /* untouched */
        assert_memory_equal(text.bytes, DEMO_ANSWER, text.len);
        assert_true(text.len > 0 && text.len < strlen(DEMO_ANSWER));
        assert_int_equal(demo_generate(session, &options, NULL), SLUICE_STOP_EOS);
        assert_string_equal(text.bytes, DEMO_ANSWER);
        sluice_session_close(&session);
    }
    demo_close(&engine);
}

static void test_disk_fails_during_next(void **state)
{
    (void)state;
    if (DEMO_EMULATED) {
        skip();
    }
    enum { TOKENS = 20 };
    const sluice_sampling sampling = {.temperature = 1.5f, .top_p = 1.0f, .seed = 11};
    sluice_engine *engine = open_small();
    uint32_t expected[TOKENS], token;
    int failures = 0;
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        sluice_session *session = demo_session(engine);
        demo_sync(session, (const uint32_t[]){300, 301}, 2);
        assert_int_equal(sluice_session_set_sampling(session, &sampling, NULL), SLUICE_OK);
        for (size_t i = 0; i < TOKENS; i++) {
            token = UINT32_MAX;
            reset_reads(disturbed != 0 ? (int)(i % 5) : -1);
            sluice_status status = sluice_session_next(session, &token, NULL);
            if (status != SLUICE_OK) {
                size_t n = 0;
                assert_int_equal(status, SLUICE_IO);
                assert_int_equal(token, UINT32_MAX);
                sluice_session_tokens(session, &n);
                assert_int_equal(n, 2 + i);
                failures++;
                reset_reads(-1);
                assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_OK);
            }
            if (disturbed != 0) {
                assert_int_equal(token, expected[i]);
            } else {
                expected[i] = token;
            }
        }
        sluice_session_close(&session);
    }
    assert_true(failures >= 3);
    demo_close(&engine);
}

static void test_disk_fails_during_sync(void **state)
{
    (void)state;
    if (DEMO_EMULATED) {
        skip();
    }
    static float expected[DEMO_VOCAB];
    struct demo_prompt prompt;
    size_t n = 0;
    demo_load_prompt(&prompt, 3);
    sluice_engine *engine = open_small();
    sluice_session *session = demo_session(engine);
    demo_sync(session, prompt.ids, 80);
    memcpy(expected, sluice_session_logits(session), sizeof expected);
    demo_sync(session, (const uint32_t[]){1}, 1);
    reset_reads(-1);
    demo_sync(session, prompt.ids, 80);
    int all = atomic_load(&reads);
    demo_sync(session, (const uint32_t[]){1}, 1);
    reset_reads(all / 2);
    assert_int_equal(sluice_session_sync(session, prompt.ids, 80, NULL), SLUICE_IO);
    sluice_session_tokens(session, &n);
    assert_true(n > 0 && n < 80 && n % 16 == 0); /* whole chunks stay */
    assert_null(sluice_session_logits(session));
    reset_reads(-1);
    demo_sync(session, prompt.ids, 80);
    assert_memory_equal(sluice_session_logits(session), expected, sizeof expected);
    sluice_session_close(&session);
    demo_close(&engine);
}

static void test_disk_fails_while_opening(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    reset_reads(-1);
    sluice_engine *engine = demo_open(&options);
    int all = atomic_load(&reads);
    demo_close(&engine);
    for (int i = 0; i < all; i += all / 20 + 1) {
        sluice_error error = {0};
        reset_reads(i);
        sluice_status status = sluice_engine_open(&engine, &options, &error);
        if (status == SLUICE_OK) {
            demo_close(&engine); /* the test read of a direct descriptor: buffered reads instead */
        } else {
            assert_int_equal(status, SLUICE_IO);
            assert_non_null(strchr(error.message, '/'));
        }
    }
}

/* ---- Memory --------------------------------------------------------------------------------------- */

static void expect_no_allocation(void)
{
    assert_int_equal(fault_alloc_count(), 0);
}

static void test_decoding_allocates_nothing(void **state)
{
    (void)state;
    sluice_engine *engine = open_small();
    sluice_session *session = demo_session(engine);
    const sluice_sampling sampling = {.temperature = 0.8f, .top_p = 0.9f, .top_k = 50, .min_p = 0.01f, .seed = 3};
    struct demo_text text;
    sluice_generate_options options = demo_generate_options(&text);
    uint32_t token;
    struct demo_prompt prompt;
    demo_load_prompt(&prompt, 0);
    assert_int_equal(sluice_session_set_sampling(session, &sampling, NULL), SLUICE_OK);
    fault_alloc_fail(-1);
    demo_sync(session, prompt.ids, prompt.n_prompt);
    expect_no_allocation();
    demo_generate(session, &options, NULL);
    expect_no_allocation();
    assert_true(text.pieces > 10);
    demo_sync(session, prompt.ids, prompt.n_prompt);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_OK);
    }
    expect_no_allocation();
    sluice_session_close(&session);
    demo_close(&engine);
}

/* Stop strings are prepared once, whatever the number of tokens. */
static void test_stop_strings_allocate_once(void **state)
{
    (void)state;
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = demo_open(NULL);
    sluice_session *session = demo_question(engine);
    const char *const strings[] = {"no such text", "good fortune!"};
    struct demo_text text;
    sluice_generate_options options = demo_generate_options(&text);
    options.stop_strings = strings;
    options.n_stop_strings = 2;
    options.max_tokens = 1;
    fault_alloc_fail(-1);
    demo_generate(session, &options, NULL);
    int once = fault_alloc_count();
    options.max_tokens = 20;
    fault_alloc_fail(-1);
    demo_generate(session, &options, NULL);
    assert_int_equal(fault_alloc_count(), once);
    for (int i = 0; i < once; i++) {
        sluice_stop stop;
        fault_alloc_fail(i);
        assert_int_equal(sluice_session_generate(session, &options, &stop, NULL, NULL), SLUICE_NO_MEMORY);
    }
    fault_alloc_fail(-1);
    sluice_session_close(&session);
    demo_close(&engine);
}

/* The rounds of an injection: `at` counts up until nothing was left to fail. */
static bool try_open(const sluice_engine_options *options, sluice_error *error)
{
    sluice_engine *engine = NULL;
    sluice_status status = sluice_engine_open(&engine, options, error);
    if (status != SLUICE_OK) {
        assert_int_equal(status, SLUICE_NO_MEMORY);
        assert_int_equal(error->status, status);
        assert_true(strlen(error->message) > 0);
        return false;
    }
    demo_close(&engine);
    return true;
}

static void test_no_memory_while_opening(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    sluice_error error = {0};
    fault_alloc_fail(-1);
    assert_true(try_open(&options, &error));
    int all = fault_alloc_count();
    int step = all / 60 + 1;
    int failed = 0;
    for (int i = 0; i < all; i += step) {
        fault_alloc_fail(i);
        failed += !try_open(&options, &error);
    }
    assert_true(failed > 10);
    fault_alloc_fail(-1);
    assert_true(try_open(&options, &error));
}

/* The last allocations of an opening are the large ones: each of them fails once. */
static void test_no_memory_for_the_parts(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    sluice_plan plan;
    sluice_error error = {0};
    fault_alloc_fail(-1);
    assert_int_equal(sluice_plan_compute(&plan, &options, &error), SLUICE_OK);
    int planning = fault_alloc_count();
    fault_alloc_fail(-1);
    assert_true(try_open(&options, &error));
    int all = fault_alloc_count();
    assert_true(all > planning);
    for (int i = planning; i < all; i++) {
        fault_alloc_fail(i);
        assert_false(try_open(&options, &error));
    }
    fault_alloc_fail(-1);
}

static void test_no_mapping_and_no_thread(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    sluice_error error = {0};
    int failed = 0;
    for (int i = 0; atomic_store(&failing_map, i), !try_open(&options, &error); i++) {
        failed++;
    }
    assert_true(failed >= 2); /* weights, activations, slots */
    atomic_store(&failing_map, -1);
    atomic_store(&failing_thread, 0);
    sluice_engine *engine = NULL;
    assert_int_not_equal(sluice_engine_open(&engine, &options, &error), SLUICE_OK);
    atomic_store(&failing_thread, 4);
    assert_int_not_equal(sluice_engine_open(&engine, &options, &error), SLUICE_OK);
    atomic_store(&failing_thread, -1);
    assert_true(try_open(&options, &error));
}

static void test_no_memory_for_a_session(void **state)
{
    (void)state;
    sluice_engine *engine = demo_open(NULL);
    sluice_session *session = NULL;
    int failed = 0;
    fault_alloc_fail(0);
    while (sluice_session_open(&session, engine, NULL) == SLUICE_NO_MEMORY) {
        failed++;
        fault_alloc_fail(failed);
    }
    fault_alloc_fail(-1);
    assert_true(failed >= 5);
    assert_non_null(session); /* the places of failed ones were given back */
    sluice_session_close(&session);
    atomic_store(&failing_map, 0);
    assert_int_equal(sluice_session_open(&session, engine, NULL), SLUICE_NO_MEMORY);
    atomic_store(&failing_map, -1);
    demo_close(&engine);
}

static void test_no_memory_for_text(void **state)
{
    (void)state;
    sluice_engine *engine = demo_open(NULL);
    const sluice_message message = {.role = SLUICE_USER, .text = DEMO_QUESTION};
    uint32_t *ids = NULL;
    char *bytes = NULL;
    size_t n = 0, len = 0;
    int failed = 0;
    fault_alloc_fail(0);
    while (sluice_chat_tokenize(engine, &message, 1, false, &ids, &n, NULL) == SLUICE_NO_MEMORY) {
        failed++;
        fault_alloc_fail(failed);
    }
    assert_true(failed >= 2);
    assert_non_null(ids);
    failed = 0;
    fault_alloc_fail(0);
    while (sluice_detokenize(engine, ids, n, &bytes, &len, NULL) == SLUICE_NO_MEMORY) {
        failed++;
        fault_alloc_fail(failed);
    }
    fault_alloc_fail(-1);
    assert_true(failed >= 1);
    assert_non_null(strstr(bytes, DEMO_QUESTION));
    sluice_free(ids);
    sluice_free(bytes);
    demo_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_weight_for_a_refused_plan, reset),
        cmocka_unit_test_setup(test_disk_fails_during_an_answer, reset),
        cmocka_unit_test_setup(test_disk_fails_during_next, reset),
        cmocka_unit_test_setup(test_disk_fails_during_sync, reset),
        cmocka_unit_test_setup(test_disk_fails_while_opening, reset),
        cmocka_unit_test_setup(test_decoding_allocates_nothing, reset),
        cmocka_unit_test_setup(test_stop_strings_allocate_once, reset),
        cmocka_unit_test_setup(test_no_memory_while_opening, reset),
        cmocka_unit_test_setup(test_no_memory_for_the_parts, reset),
        cmocka_unit_test_setup(test_no_mapping_and_no_thread, reset),
        cmocka_unit_test_setup(test_no_memory_for_a_session, reset),
        cmocka_unit_test_setup(test_no_memory_for_text, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
