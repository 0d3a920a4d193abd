/* Processor features and count.
 *
 * The compiler's own detection also asks whether the system saves the wide registers. Each feature of ours names
 * everything that the kernels behind it use, so one bit decides. */
#include "os/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

uint32_t cpu_features(void)
{
    uint32_t features = 0;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        features |= CPU_AVX2;
    }
#endif
    return features;
}

static const struct feature_name {
    const char *name;
    uint32_t mask;
} feature_names[] = {
    {"all", CPU_AVX2},
    {"scalar", 0},
    {"avx2", CPU_AVX2},
};

/* Adds the features that name[0..len) stands for; false for an unknown name. */
static bool features_add(uint32_t *features, const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(feature_names) / sizeof(feature_names[0]); i++) {
        if (strlen(feature_names[i].name) == len && memcmp(feature_names[i].name, name, len) == 0) {
            *features |= feature_names[i].mask;
            return true;
        }
    }
    return false;
}

sluice_status cpu_features_parse(const char *list, uint32_t *out, sluice_error *err)
{
    uint32_t features = 0;
    const char *name = list;
    for (;;) {
        size_t len = strcspn(name, ",");
        if (!features_add(&features, name, len)) {
            return error_set(err, SLUICE_INVALID, "cpu features \"%s\": unknown name \"%.*s\" (all, scalar, avx2)",
                             list, (int)(len > 64 ? 64 : len), name);
        }
        if (name[len] == '\0') {
            break;
        }
        name += len + 1;
    }
    *out = features;
    return SLUICE_OK;
}

unsigned cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) {
        return (unsigned)CPU_COUNT(&set);
    }
    /* more processors than a cpu_set_t has room for */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}
