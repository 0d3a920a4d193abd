/* The instruction sets a bench may use, from the text of --cpu-features. */
#include "bench/bench.h"
#include "os/cpu.h"

sluice_status bench_features_parse(const char *list, uint32_t *out, sluice_error *err)
{
    uint32_t mask;

    if (list == NULL) {
        *out = cpu_features();
        return SLUICE_OK;
    }
    TRY(cpu_features_parse(list, &mask, err));
    *out = mask & cpu_features();
    return SLUICE_OK;
}
