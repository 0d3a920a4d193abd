/* Greedy and random choice of a token.
 *
 * The candidates stand in a max-heap and are taken out one by one, likeliest first, until a filter ends the
 * list or the draw is decided: a whole sort of 150,000 entries is never needed, and the usual pick takes out a
 * handful. What has been taken out lies behind the heap, as in heapsort, so no second array is needed.
 *
 * Random numbers: number i of a seed is the splitmix64 finaliser of (seed + (i + 1) * golden gamma) with the seed
 * itself mixed first. A stream is therefore a seed and a count, and going back is subtraction. */
#include "engine/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "quant/exp.h"

#define GOLDEN_GAMMA 0x9E3779B97F4A7C15ull

void sluice_sampling_init(sluice_sampling *sampling)
{
    *sampling = (sluice_sampling){.temperature = 0.0f, .top_p = 1.0f};
}

size_t sampler_bytes(uint32_t vocab_size)
{
    return (size_t)vocab_size * sizeof(struct sampler_entry);
}

sluice_status sampler_open(struct sampler *out, uint32_t vocab_size, sluice_error *err)
{
    struct sampler_entry *entries = mem_zalloc(vocab_size, sizeof *entries);
    if (entries == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "sampler: no memory for %u candidates", vocab_size);
    }
    *out = (struct sampler){.n = vocab_size, .entries = entries};
    sluice_sampling_init(&out->settings);
    return SLUICE_OK;
}

void sampler_close(struct sampler *sampler)
{
    free(sampler->entries);
    *sampler = (struct sampler){0};
}

/* The comparisons are false for NaN, which is therefore refused everywhere. */
sluice_status sampler_set(struct sampler *sampler, const sluice_sampling *settings, sluice_error *err)
{
    if (!(settings->temperature >= 0.0f && isfinite(settings->temperature))) {
        return error_set(err, SLUICE_INVALID, "temperature must be 0 or a positive number");
    }
    if (!(settings->top_p > 0.0f && settings->top_p <= 1.0f)) {
        return error_set(err, SLUICE_INVALID, "top_p must lie above 0 and be at most 1");
    }
    if (!(settings->min_p >= 0.0f && settings->min_p <= 1.0f)) {
        return error_set(err, SLUICE_INVALID, "min_p must lie between 0 and 1");
    }
    sampler->settings = *settings;
    sampler->draws = 0;
    return SLUICE_OK;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/* The next number of the stream, in [0, 1), a multiple of 2^-53. */
static double draw(struct sampler *sampler)
{
    sampler->draws++;
    uint64_t bits = mix(mix(sampler->settings.seed + GOLDEN_GAMMA) + sampler->draws * GOLDEN_GAMMA);
    return (double)(bits >> 11) * 0x1p-53;
}

static uint32_t largest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    return best;
}

static bool likelier(const struct sampler_entry *a, const struct sampler_entry *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void sift_down(struct sampler_entry *heap, size_t n, size_t i)
{
    struct sampler_entry moving = heap[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && likelier(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!likelier(&heap[child], &moving)) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static void build_heap(struct sampler *sampler, const float *logits)
{
    uint32_t n = sampler->n;
    for (uint32_t i = 0; i < n; i++) {
        sampler->entries[i] = (struct sampler_entry){.logit = logits[i], .id = i};
    }
    for (size_t i = n / 2; i > 0; i--) {
        sift_down(sampler->entries, n, i - 1);
    }
}

/* The entries in order of likelihood while a pick goes on: the first `taken` lie, newest first, behind the heap. */
struct ranking {
    struct sampler_entry *entries;
    size_t n, taken;
    float largest, temperature;
};

static const struct sampler_entry *ranked(struct ranking *ranking, size_t rank)
{
    while (ranking->taken <= rank) {
        size_t last = ranking->n - 1 - ranking->taken;
        struct sampler_entry top = ranking->entries[0];
        ranking->entries[0] = ranking->entries[last];
        ranking->entries[last] = top;
        ranking->taken++;
        if (last > 0) {
            sift_down(ranking->entries, last, 0);
        }
    }
    return &ranking->entries[ranking->n - 1 - rank];
}

/* Subtracting first keeps a tiny temperature from making infinities out of both terms. */
static double weight_of(const struct ranking *ranking, float logit)
{
    return (double)quant_exp((logit - ranking->largest) / ranking->temperature);
}

static double weight_at(struct ranking *ranking, size_t rank)
{
    return weight_of(ranking, ranked(ranking, rank)->logit);
}

/* Sum of all weights, ids ascending; nothing is taken out of the heap for it. */
static double weight_of_all(const struct ranking *ranking, const float *logits)
{
    double sum = 0.0;
    for (size_t i = 0; i < ranking->n; i++) {
        sum += weight_of(ranking, logits[i]);
    }
    return sum;
}

/* Sum of the first n weights, likeliest first. */
static double weight_of_first(struct ranking *ranking, size_t n)
{
    double sum = 0.0;
    for (size_t rank = 0; rank < n; rank++) {
        sum += weight_at(ranking, rank);
    }
    return sum;
}

/* How many of the first n stay under top_p and min_p, at least one; *sum gets their weight. */
static size_t nucleus(struct ranking *ranking, size_t n, double total, const sluice_sampling *settings, double *sum)
{
    double line = (double)settings->top_p * total;
    double reached = 0.0;
    size_t kept = 0;
    while (kept < n) {
        double weight = weight_at(ranking, kept);
        bool unlikely = weight < (double)settings->min_p; /* the likeliest weighs 1 */
        if (kept > 0 && (unlikely || (settings->top_p < 1.0f && reached >= line))) {
            break;
        }
        reached += weight;
        kept++;
    }
    *sum = reached;
    return kept;
}

/* The id at which the running sum passes `target`; rounding may leave that to the last one that weighs anything. */
static uint32_t id_at(struct ranking *ranking, size_t n, double target)
{
    double reached = 0.0;
    uint32_t id = ranked(ranking, 0)->id;
    for (size_t rank = 0; rank < n; rank++) {
        double weight = weight_at(ranking, rank);
        if (weight == 0.0) {
            break;
        }
        reached += weight;
        id = ranked(ranking, rank)->id;
        if (reached > target) {
            break;
        }
    }
    return id;
}

uint32_t sampler_pick(struct sampler *sampler, const float *logits)
{
    const sluice_sampling *settings = &sampler->settings;
    uint32_t best = largest(logits, sampler->n);
    if (settings->temperature == 0.0f) {
        return best;
    }
    build_heap(sampler, logits);
    struct ranking ranking = {
        .entries = sampler->entries,
        .n = sampler->n,
        .largest = logits[best],
        .temperature = settings->temperature,
    };
    bool some = settings->top_k > 0 && settings->top_k < sampler->n;
    size_t kept = some ? settings->top_k : sampler->n;
    double sum = some ? weight_of_first(&ranking, kept) : weight_of_all(&ranking, logits);
    if (settings->top_p < 1.0f || settings->min_p > 0.0f) {
        kept = nucleus(&ranking, kept, sum, settings, &sum);
    }
    return id_at(&ranking, kept, draw(sampler) * sum);
}
