/* The memory plan: its sums, its advice, and that a process stays within it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/demo.h"
#include "support/sample.h"

#define MIB ((uint64_t)1 << 20)

/* Under a sanitizer or an emulator the resident set is mostly theirs. */
#ifdef SLUICE_SANITIZED
#define OWN_MEMORY false
#else
#define OWN_MEMORY (!DEMO_EMULATED)
#endif

static sluice_plan plan_for(const sluice_engine_options *options)
{
    sluice_plan plan;
    sluice_error error = {0};
    if (sluice_plan_compute(&plan, options, &error) != SLUICE_OK) {
        fail_msg("%s", error.message);
    }
    return plan;
}

static void check_sums(const sluice_plan *plan)
{
    uint64_t sum = 0;
    assert_in_range(plan->n_lines, 8, SLUICE_PLAN_LINES);
    for (size_t i = 0; i < plan->n_lines; i++) {
        assert_true(strlen(plan->lines[i].what) > 0);
        sum += plan->lines[i].bytes;
    }
    assert_int_equal(sum, plan->total);
    assert_int_equal(plan->fits, plan->total <= plan->limit);
    assert_int_equal(plan->fits, strlen(plan->advice) == 0);
    assert_int_equal(plan->expert_count, 256);
    assert_int_equal(plan->slots_per_layer, plan->expert_slots == 256 ? 32 : (plan->expert_slots - 4) / 8);
    assert_true(plan->slot_bytes > 0 && plan->slot_bytes % 16384 == 0);
}

static void test_limits(void **state)
{
    (void)state;
    if (!OWN_MEMORY) {
        skip();
    }
    sluice_engine_options options = demo_options();
    sluice_plan plan = plan_for(&options);
    check_sums(&plan);
    assert_true(plan.fits);
    assert_int_equal(plan.expert_slots, 256);
    assert_string_not_equal(plan.limit_from, "memory_limit");
    assert_int_equal(plan.context, 512);
    uint64_t least = plan.minimum, all = plan.total, slots = 0;
    for (uint64_t limit = least - 8 * MIB; limit < all + 8 * MIB; limit += 3 * MIB) {
        options.memory_limit = limit;
        plan = plan_for(&options);
        check_sums(&plan);
        assert_string_equal(plan.limit_from, "memory_limit");
        assert_int_equal(plan.limit, limit);
        assert_true(plan.expert_slots >= slots || slots == 0);
        slots = plan.fits ? plan.expert_slots : 0;
        assert_true(plan.fits || limit < least);
    }
    assert_int_equal(slots, 256);
    options.memory_limit = UINT64_MAX;
    plan = plan_for(&options);
    assert_string_not_equal(plan.limit_from, "memory_limit");
}

static void test_what_costs_memory(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    sluice_plan usual = plan_for(&options);
    options.context = 2048;
    sluice_plan longer = plan_for(&options);
    options.sessions = 4;
    sluice_plan more = plan_for(&options);
    options = demo_options();
    options.prefill_chunk = 256;
    sluice_plan wider = plan_for(&options);
    assert_true(longer.minimum > usual.minimum);
    assert_true(more.minimum >= longer.minimum + 3 * 2048 * 9 * 80 * 4); /* three caches more */
    assert_true(wider.minimum > usual.minimum);
}

/* Each way out that the refusal names is one. */
static void test_advice(void **state)
{
    (void)state;
    if (!OWN_MEMORY) {
        skip();
    }
    sluice_engine_options options = demo_options();
    options.sessions = 8;
    uint64_t limit = plan_for(&options).minimum;
    options.context = 2048;
    options.memory_limit = limit;
    sluice_engine *engine = NULL;
    sluice_error error = {0};
    assert_int_equal(sluice_engine_open(&engine, &options, &error), SLUICE_LIMIT);
    assert_null(engine);
    assert_non_null(strstr(error.message, "needs "));
    assert_non_null(strstr(error.message, "(memory_limit)"));
    const char *raise = strstr(error.message, "raise the limit to ");
    const char *lower = strstr(error.message, "lower the context to ");
    assert_non_null(raise);
    assert_non_null(lower);
    unsigned long mib = strtoul(raise + strlen("raise the limit to "), NULL, 10);
    unsigned long context = strtoul(lower + strlen("lower the context to "), NULL, 10);
    assert_in_range(context, 448, 2047);
    options.memory_limit = mib * MIB;
    engine = demo_open(&options);
    demo_close(&engine);
    options.memory_limit = limit;
    options.context = (uint32_t)context;
    engine = demo_open(&options);
    demo_close(&engine);
    options.memory_limit = 1;
    assert_int_equal(sluice_engine_open(&engine, &options, &error), SLUICE_LIMIT);
    assert_null(strstr(error.message, "lower the context")); /* that would not help */
}

static bool take_rows(void *user, size_t first, size_t n_rows, const float *logits)
{
    (void)user;
    (void)first;
    (void)n_rows;
    return logits != NULL;
}

/* In a process of its own: opens, fills the context in every way, and compares. Exit status 0: within the plan. */
static int live_within(const sluice_engine_options *options)
{
    struct demo_prompt prompt;
    demo_load_prompt(&prompt, options->sessions > 1 ? 1 : 3);
    sluice_engine *engine = demo_open(options);
    const sluice_sampling sampling = {.temperature = 2.0f, .top_p = 0.99f, .seed = 4};
    const sluice_generate_options generate = {.max_tokens = 60};
    sluice_session *sessions[4] = {NULL};
    if (options->sessions < 1 || options->sessions > 4) {
        return 3;
    }
    for (uint32_t i = 0; i < options->sessions; i++) {
        sessions[i] = demo_session(engine);
        demo_sync(sessions[i], prompt.ids, prompt.n);
        sluice_session_set_sampling(sessions[i], &sampling, NULL);
        demo_generate(sessions[i], &generate, NULL);
    }
    if (sluice_session_evaluate(sessions[0], prompt.ids, prompt.n, take_rows, NULL, NULL) != SLUICE_OK) {
        return 2;
    }
    while (sluice_session_next(sessions[0], &prompt.ids[0], NULL) == SLUICE_OK &&
           !sluice_engine_is_eos(engine, prompt.ids[0])) {
    }
    sluice_stats stats;
    sluice_engine_get_stats(engine, &stats);
    for (uint32_t i = 0; i < options->sessions; i++) {
        sluice_session_close(&sessions[i]);
    }
    demo_close(&engine);
    return stats.peak_rss_bytes <= stats.planned_bytes && stats.planned_bytes <= options->memory_limit ? 0 : 1;
}

static void expect_child(int (*live)(const sluice_engine_options *options), const sluice_engine_options *options)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(live(options));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_peak_within_plan(void **state)
{
    (void)state;
    if (!OWN_MEMORY) {
        skip();
    }
    static const struct {
        uint32_t context, sessions, threads, chunk;
    } cases[] = {{400, 1, 1, 1}, {2048, 3, 3, 64}, {600, 2, 8, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sluice_engine_options options = demo_options();
        options.context = cases[i].context;
        options.sessions = cases[i].sessions;
        options.threads = cases[i].threads;
        options.prefill_chunk = cases[i].chunk;
        uint64_t least = plan_for(&options).minimum;
        static const uint64_t more[] = {0, 64 * MIB};
        for (size_t j = 0; j < sizeof more / sizeof more[0]; j++) {
            options.memory_limit = least + more[j];
            expect_child(live_within, &options);
        }
    }
}

#define FAT (40 * MIB)

/* The demo model with a shard whose header takes long to read. */
static void make_fat(struct temp_dir *dir)
{
    sample_copy(dir, SLUICE_MODELS_DIR "/demo");
    struct sample_shard shard;
    sample_shard_load(&shard, dir, "out-00001.safetensors");
    char *text = calloc(FAT + 1, 1);
    assert_non_null(text);
    memset(text, 'x', FAT);
    assert_int_equal(json_object_set_new(shard.header, "__metadata__", json_pack("{s:s}", "note", text)), 0);
    free(text);
    sample_shard_save(&shard);
}

/* In a process of its own, which never used more: a limit that the model alone would fit is refused. */
static int refuses(const sluice_engine_options *options)
{
    sluice_engine *engine = NULL;
    sluice_error error = {0};
    return sluice_engine_open(&engine, options, &error) == SLUICE_LIMIT && strstr(error.message, "raise the limit to ")
               ? 0
               : 1;
}

/* Reading the headers can take more than running the model: the plan knows. */
static void test_fat_header(void **state)
{
    (void)state;
    if (!OWN_MEMORY) {
        skip();
    }
    struct temp_dir dir;
    make_fat(&dir);
    sluice_engine_options options = demo_options();
    options.sessions = 1;
    options.model_dir = dir.path;
    options.memory_limit = 64 * MIB;
    expect_child(refuses, &options);
    options.memory_limit = 512 * MIB;
    expect_child(live_within, &options);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_what_costs_memory),
        cmocka_unit_test(test_advice),     cmocka_unit_test(test_peak_within_plan),
        cmocka_unit_test(test_fat_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
