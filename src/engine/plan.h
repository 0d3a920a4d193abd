/* The memory plan: what the process may use, line by line, before any weight is read.
 *
 * Every line is an upper bound, so that the peak resident set stays within the total. What is left of the
 * limit after the fixed lines becomes expert slots. */
#ifndef SLUICE_ENGINE_PLAN_H
#define SLUICE_ENGINE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "container/container.h"
#include "device/cpu/cpu_device.h"
#include "engine/settings.h"
#include "experts/executor.h"
#include "model/model.h"
#include "os/thread_pool.h"
#include "sluice/sluice.h"

#define PLAN_READER_THREADS 8 /* reads in flight at once */

/* What a plan is made for; all borrowed. */
struct plan_subject {
    const struct container *container;
    const struct engine_settings *settings;
    const struct kernel_table *kernels;
    struct thread_pool *pool;
    size_t text_bytes;     /* detokenizer_max_bytes, 0 without a tokenizer */
    uint64_t loading_peak; /* memory that reading headers and tokenizer took at its highest, 0 if unknown */
};

/* The plan for this subject and this moment: the resident set of now is its first line. SLUICE_OK also when
 * it does not fit. */
sluice_status plan_make(sluice_plan *out, const struct plan_subject *subject, sluice_error *err);

/* SLUICE_LIMIT with needs, limit and advice in one line if the plan does not fit. */
sluice_status plan_check(const sluice_plan *plan, sluice_error *err);

/* The options of the parts, derived once for the plan and for the parts themselves. The executor's still lack
 * store and device. */
struct model_options plan_model_options(const struct plan_subject *subject, size_t context);
struct executor_options plan_executor_options(const struct plan_subject *subject);
struct cpu_device_limits plan_device_limits(const struct plan_subject *subject);

#endif
