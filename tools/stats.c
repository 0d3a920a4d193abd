/* The figures of --stats, as a table for people or one JSON line for programs. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "console.h"
#include "numbers.h"
#include "options.h"

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

static double hit_rate(const sluice_stats *stats)
{
    return rate((double)stats->expert_hits, (double)(stats->expert_hits + stats->expert_misses));
}

static void stats_print_json(const sluice_stats *stats, const sluice_engine_info *info)
{
    json_t *line = json_pack(
        "{s:I, s:f, s:I, s:f, s:I, s:I, s:f, s:I, s:f, s:I, s:I, s:I, s:s, s:s, s:s}", "prefill_tokens",
        (json_int_t)stats->prefill_tokens, "prefill_tokens_per_s",
        rate((double)stats->prefill_tokens, stats->prefill_seconds), "decode_tokens", (json_int_t)stats->decode_tokens,
        "decode_tokens_per_s", rate((double)stats->decode_tokens, stats->decode_seconds), "expert_hits",
        (json_int_t)stats->expert_hits, "expert_misses", (json_int_t)stats->expert_misses, "hit_rate", hit_rate(stats),
        "bytes_read", (json_int_t)stats->bytes_read, "disk_wait_s", stats->disk_wait_seconds, "peak_rss_bytes",
        (json_int_t)stats->peak_rss_bytes, "planned_bytes", (json_int_t)stats->planned_bytes, "threads",
        (json_int_t)info->threads, "numerics", info->numerics, "device", info->device, "reader", info->reader);
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));

    console_say("%s", text != NULL ? text : "{}");
    free(text);
    json_decref(line);
}

static void stats_print_table(const sluice_stats *stats, const sluice_engine_info *info)
{
    char bytes[32], limit[32];

    console_say("prefill     %8" PRIu64 " tokens  %9.2f tokens/s", stats->prefill_tokens,
                rate((double)stats->prefill_tokens, stats->prefill_seconds));
    console_say("decode      %8" PRIu64 " tokens  %9.2f tokens/s", stats->decode_tokens,
                rate((double)stats->decode_tokens, stats->decode_seconds));
    console_say("experts     %8" PRIu64 " hits, %" PRIu64 " misses (%.1f %% hits)", stats->expert_hits,
                stats->expert_misses, 100 * hit_rate(stats));
    number_format_bytes(stats->bytes_read, bytes, sizeof bytes);
    console_say("disk        %s read by %s, %.2f s waited for it", bytes, info->reader, stats->disk_wait_seconds);
    number_format_bytes(stats->peak_rss_bytes, bytes, sizeof bytes);
    number_format_bytes(stats->planned_bytes, limit, sizeof limit);
    console_say("memory      %s peak, %s planned", bytes, limit);
    console_say("computing   %" PRIu32 " threads, %s on %s (%s)", info->threads, info->numerics, info->device,
                info->cpu_kernels);
}

void stats_report(const sluice_engine *engine, int form)
{
    sluice_stats stats;
    sluice_engine_info info;

    if (form == STATS_OFF) {
        return;
    }
    sluice_engine_get_stats(engine, &stats);
    sluice_engine_get_info(engine, &info);
    if (form == STATS_JSON) {
        stats_print_json(&stats, &info);
    } else {
        stats_print_table(&stats, &info);
    }
}
