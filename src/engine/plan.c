/* Computing the memory plan.
 *
 *   total(slots) = fixed lines + store(slots) + reserve, all rounded up to what the system may make resident
 *
 * The first line is the resident set measured now, when the catalogue and the tokenizer are loaded already;
 * library code that has not run yet and stacks that are not deep yet follow as a line of their own. The reserve covers
 * what nobody counts: the heap's own losses, small objects, page tables (8 bytes per 4 KiB page, a cgroup charges
 * them).
 *
 * A plan that does not fit is made with the fewest slots, so that its lines show what would be needed. */
#include "engine/plan.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/sampler.h"
#include "experts/policy.h"
#include "experts/store.h"
#include "os/memory.h"

#define MIB ((uint64_t)1 << 20)

#define PAGE_BYTES ((uint64_t)64 << 10)   /* the largest page size in use */
#define LIBRARY_BYTES (4 * MIB)           /* library code and data that become resident later */
#define STACK_BYTES ((uint64_t)256 << 10) /* resident part of a thread's stack */
#define RESERVE_BYTES (6 * MIB)
#define RESERVE_SHARE 512 /* and one byte in so many */

/* The process measures a little more or less from run to run; a limit equal to the minimum must still fit. */
#define MINIMUM_SLACK (2 * MIB)

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Whole pages. A huge page never reaches past the end of its mapping, so it makes nothing more resident. */
static uint64_t resident(uint64_t bytes)
{
    return round_up(bytes, PAGE_BYTES);
}

struct model_options plan_model_options(const struct plan_subject *subject, size_t context)
{
    size_t rows = subject->settings->prefill_rows;
    return (struct model_options){
        .container = subject->container,
        .kernels = subject->kernels,
        .pool = subject->pool,
        .max_rows = rows < context ? rows : context,
        .context = context,
    };
}

struct executor_options plan_executor_options(const struct plan_subject *subject)
{
    const struct model_config *config = &subject->container->config;
    return (struct executor_options){
        .kernels = subject->kernels,
        .pool = subject->pool,
        .max_rows = subject->settings->prefill_rows,
        .k = config->num_experts_per_tok,
        .hidden = config->hidden_size,
        .n_experts = config->n_routed_experts,
    };
}

/* Routed experts and the shared one run through the same device. */
struct cpu_device_limits plan_device_limits(const struct plan_subject *subject)
{
    const struct model_config *config = &subject->container->config;
    struct executor_options executor = plan_executor_options(subject);
    uint32_t shared = config->moe_intermediate_size * config->n_shared_experts;
    struct cpu_device_limits limits = {
        .max_hidden = config->hidden_size,
        .max_intermediate = shared > config->moe_intermediate_size ? shared : config->moe_intermediate_size,
    };
    executor_call_limits(&executor, &limits.max_rows, &limits.max_blocks);
    return limits;
}

/* Memory of one session besides its cache. */
static uint64_t session_bytes(const struct plan_subject *subject, size_t context)
{
    uint32_t vocab_size = subject->container->config.vocab_size;
    uint64_t logits = (uint64_t)vocab_size * sizeof(float);
    uint64_t tokens = (uint64_t)context * sizeof(uint32_t);
    return resident(logits) + resident(sampler_bytes(vocab_size)) + resident(tokens) + resident(subject->text_bytes);
}

static void add_line(sluice_plan *plan, const char *what, uint64_t bytes)
{
    sluice_plan_line *line = &plan->lines[plan->n_lines++];
    snprintf(line->what, sizeof line->what, "%s", what);
    line->bytes = bytes;
    plan->total += bytes;
}

/* Every line but the experts' slots and the reserve. */
static void add_fixed_lines(sluice_plan *plan, const struct plan_subject *subject, uint64_t rss, size_t context)
{
    const struct engine_settings *settings = subject->settings;
    const struct container *container = subject->container;
    struct model_options options = plan_model_options(subject, context);
    struct model_memory memory;
    model_memory(&options, &memory);
    struct executor_options executor = plan_executor_options(subject);
    struct cpu_device_limits limits = plan_device_limits(subject);
    uint64_t threads = settings->threads + PLAN_READER_THREADS;
    uint64_t logits = (uint64_t)settings->logits_rows * container->config.vocab_size * sizeof(float);

    plan->context = (uint32_t)context;
    add_line(plan, "process, catalogue, tokenizer (measured)", rss);
    add_line(plan, "libraries and thread stacks", LIBRARY_BYTES + threads * STACK_BYTES);
    add_line(plan, "spine weights", resident(memory.weights));
    add_line(plan, "position tables", resident(memory.tables));
    add_line(plan, "activations", resident(memory.scratch));
    add_line(plan, "expert executor", resident(executor_bytes(&executor)));
    add_line(plan, "compute device", resident(cpu_device_bytes(&limits)));
    add_line(plan, "logits of an evaluation", resident(logits));
    add_line(plan, "attention cache", settings->sessions * resident(kv_cache_bytes(container, context)));
    add_line(plan, "session buffers", settings->sessions * session_bytes(subject, context));
}

/* What the slots take beside the fixed lines, their share of the reserve included. */
static uint64_t with_reserve(uint64_t bytes)
{
    return bytes + RESERVE_BYTES + bytes / RESERVE_SHARE;
}

static uint64_t total_with(const struct plan_subject *subject, uint64_t fixed, size_t slots)
{
    return with_reserve(fixed + resident(expert_store_bytes(subject->container, slots)));
}

static size_t fewest_slots(const struct plan_subject *subject)
{
    return expert_store_min_slots(subject->container);
}

/* The smallest total for a context. */
static uint64_t least_total(const struct plan_subject *subject, uint64_t rss, size_t context)
{
    sluice_plan plan = {0};
    add_fixed_lines(&plan, subject, rss, context);
    return total_with(subject, plan.total, fewest_slots(subject));
}

static size_t count_sparse(const struct container *container)
{
    size_t n = 0;
    for (uint32_t i = 0; i < container->config.num_hidden_layers; i++) {
        n += container->layers[i].sparse;
    }
    return n;
}

/* The experts that a layer keeps: all of them, or the policy's quota. */
static uint32_t resident_per_layer(const struct container *container, size_t slots, size_t sparse)
{
    const struct policy_table table = {
        .n_slots = slots,
        .n_layers = sparse,
        .transit = container->config.num_experts_per_tok,
    };
    size_t all = container->config.n_routed_experts;
    return (uint32_t)(sparse > 0 && slots >= sparse * all ? all : policy_quota(&table));
}

/* The most slots within the limit: total_with grows with the slots, so the range is halved. */
static size_t most_slots(const struct plan_subject *subject, uint64_t fixed, uint64_t limit, size_t all)
{
    size_t fits = fewest_slots(subject);
    size_t beyond = all + 1;
    while (beyond - fits > 1) {
        size_t middle = fits + (beyond - fits) / 2;
        if (total_with(subject, fixed, middle) <= limit) {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    return fits;
}

static void find_limit(sluice_plan *plan, uint64_t asked)
{
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t system = memory_limit_bytes();
    const char *from = system < physical ? "cgroup" : "physical memory";
    plan->limit = system;
    if (asked != 0 && asked < system) {
        plan->limit = asked;
        from = "memory_limit";
    }
    snprintf(plan->limit_from, sizeof plan->limit_from, "%s", from);
}

/* The longest context with which the fewest slots fit, a multiple of 64 where it is that long; 0 for none. */
static size_t longest_context(const struct plan_subject *subject, uint64_t rss, uint64_t limit, size_t below)
{
    size_t fits = 0;
    size_t beyond = below;
    while (beyond - fits > 1) {
        size_t middle = fits + (beyond - fits) / 2;
        if (least_total(subject, rss, middle) <= limit) {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    return fits >= KERNEL_POSITION_BLOCK ? fits - fits % KERNEL_POSITION_BLOCK : fits;
}

/* A size for people, rounded up so that a limit of that size is enough, or down. */
static void format_size(char *text, size_t len, uint64_t bytes, bool up)
{
    bool large = bytes >= 1024 * MIB;
    uint64_t unit = large ? 1024 * MIB / 10 : MIB;
    uint64_t n = bytes / unit + (up && bytes % unit != 0);
    if (large) {
        snprintf(text, len, "%llu.%llu GiB", (unsigned long long)n / 10, (unsigned long long)n % 10);
    } else {
        snprintf(text, len, "%llu MiB", (unsigned long long)n);
    }
}

static void advise(sluice_plan *plan, const struct plan_subject *subject, uint64_t rss)
{
    char need[32];
    char change[96] = "";
    format_size(need, sizeof need, plan->minimum, true);
    bool loads = subject->loading_peak <= plan->limit;
    size_t context = loads ? longest_context(subject, rss, plan->limit, plan->context) : 0;
    if (context > 0) {
        snprintf(change, sizeof change, " or lower the context to %zu", context);
    } else if (loads && subject->settings->sessions > 1) {
        snprintf(change, sizeof change, " or allow fewer sessions");
    }
    snprintf(plan->advice, sizeof plan->advice, "raise the limit to %s%s", need, change);
}

/* Files that took more to read than the model takes to run decide the plan. */
static void count_loading(sluice_plan *plan, uint64_t peak)
{
    uint64_t least = round_up(peak, MIB);
    if (peak > plan->total) {
        add_line(plan, "reading headers and tokenizer", peak - plan->total);
    }
    plan->minimum = least > plan->minimum ? least : plan->minimum;
    plan->fits = plan->fits && peak <= plan->limit;
}

sluice_status plan_make(sluice_plan *out, const struct plan_subject *subject, sluice_error *err)
{
    const struct container *container = subject->container;
    uint64_t rss = memory_rss_bytes();
    if (rss == 0) {
        return error_set(err, SLUICE_IO, "/proc/self: the memory of this process cannot be read");
    }
    sluice_plan plan = {0};
    size_t sparse = count_sparse(container);
    find_limit(&plan, subject->settings->memory_limit);
    add_fixed_lines(&plan, subject, rss, subject->settings->context);
    uint64_t fixed = plan.total;
    uint64_t least = total_with(subject, fixed, fewest_slots(subject));

    plan.expert_count = (uint64_t)sparse * container->config.n_routed_experts;
    plan.slot_bytes = expert_store_slot_bytes(container);
    plan.minimum = round_up(least + MINIMUM_SLACK, MIB);
    plan.fits = least <= plan.limit;
    size_t slots = fewest_slots(subject);
    if (plan.fits) {
        slots = most_slots(subject, fixed, plan.limit, plan.expert_count);
    }
    plan.expert_slots = slots;
    plan.slots_per_layer = resident_per_layer(container, slots, sparse);
    uint64_t store = resident(expert_store_bytes(container, slots));
    add_line(&plan, "expert slots", store);
    add_line(&plan, "reserve", with_reserve(fixed + store) - fixed - store);
    count_loading(&plan, subject->loading_peak);
    if (!plan.fits) {
        advise(&plan, subject, rss);
    }
    *out = plan;
    return SLUICE_OK;
}

sluice_status plan_check(const sluice_plan *plan, sluice_error *err)
{
    char need[32], limit[32];
    if (plan->fits) {
        return SLUICE_OK;
    }
    format_size(need, sizeof need, plan->total, true);
    format_size(limit, sizeof limit, plan->limit, false);
    return error_set(err, SLUICE_LIMIT, "needs %s of memory, the limit is %s (%s): %s", need, limit, plan->limit_from,
                     plan->advice);
}
