#include "model.h"

#include <math.h>

static const double register_bytes = 4;
static const double hidden_share = 0.25; /* of what overlaps with the longest part, the rest is hidden behind it */

/* A launch in the model's terms. */
typedef struct {
    const played_profile *profile;
    const played_work *work;
    double local[3], global[3];
    double in_wave[3]; /* how many different ids a wave has on each axis */
    double waves; /* of a group */
    double groups, resident_groups, resident_waves; /* resident: on one unit */
} launch;

static double product(const double sizes[3]) { return sizes[0] * sizes[1] * sizes[2]; }

static void shape(launch *now, const size_t global[3], const size_t local[3]) {
    double lanes = now->profile->wave;
    now->groups = 1;
    for (int i = 0; i < 3; i++) {
        now->local[i] = (double)local[i];
        now->global[i] = (double)global[i];
        now->groups *= ceil(now->global[i] / now->local[i]);
        now->in_wave[i] = fmin(now->local[i], fmax(1, lanes));
        lanes = floor(lanes / now->in_wave[i]);
    }
    now->waves = ceil(product(now->local) / now->profile->wave);
}

/* How many groups and waves are on a unit at a time. */
static void occupancy(launch *now) {
    const played_profile *p = now->profile;
    const double wave_bytes = fmax(now->work->registers, 1) * register_bytes * p->wave;
    const double room = fmin(p->max_waves, floor(p->registers_kb * 1024 / wave_bytes));
    const double dealt = ceil(now->groups / p->compute_units);
    now->resident_groups = fmax(1, fmin(dealt, floor(fmax(room, 1) / now->waves)));
    now->resident_waves = fmin(p->max_waves, now->resident_groups * now->waves);
}

/* Different bytes of an operand among work items that have these many ids on each axis. */
static double distinct_bytes(const played_operand *operand, const double ids[3]) {
    double bytes = operand->bytes;
    for (int i = 0; i < 3; i++) bytes *= operand->axis[i] ? ids[i] : 1;
    return bytes;
}

/* The part of each line of memory that is used before it is lost. */
static double line_use(const launch *now, const played_operand *operand) {
    const played_profile *p = now->profile;
    const double access = fmin(now->work->access, p->line_bytes);
    if (operand->near && operand->first_axis >= 0) {
        const double run = access * now->in_wave[operand->first_axis];
        return run / (ceil(run / p->line_bytes) * p->line_bytes);
    }
    const double lines = now->resident_waves * distinct_bytes(operand, now->in_wave) / fmax(operand->bytes, 1);
    return lines * p->line_bytes <= p->cache_kb * 1024 ? 1 : access / p->line_bytes;
}

/* Whether a unit keeps an operand apart from its cache. */
static bool is_kept(const launch *now, const played_operand *operand) {
    const double room = now->profile->constant_kb * 1024;
    return now->work->constant && operand->weights && distinct_bytes(operand, now->global) <= room;
}

/* What a wave reads of that, address by address, while its cache is at work. */
static double constant_clocks(const launch *now) {
    double bytes = 0;
    for (size_t i = 0; i < now->work->count; i++) {
        const played_operand *operand = &now->work->operands[i];
        bytes += is_kept(now, operand) ? distinct_bytes(operand, now->in_wave) : 0;
    }
    return bytes / now->profile->constant_bytes_per_clock;
}

static double compute_clocks(const launch *now) {
    const played_profile *p = now->profile;
    const double rate = p->macs_per_clock * (now->work->half ? p->half_rate : 1);
    return now->work->macs * p->wave / rate * (now->work->fma ? p->fma_cost : 1);
}

/* A wave's reading and writing through its unit's cache; images are fetched by texels, which suits any shape that has
 * neighbours on two axes. */
static double cache_clocks(const launch *now) {
    const played_profile *p = now->profile;
    double clocks = 0;
    for (size_t i = 0; i < now->work->count; i++) {
        const played_operand *operand = &now->work->operands[i];
        const double bytes = distinct_bytes(operand, now->in_wave);
        if (is_kept(now, operand)) continue;
        if (now->work->image) {
            clocks += bytes / p->image_bytes_per_clock;
        } else {
            clocks += bytes / line_use(now, operand) / p->buffer_bytes_per_clock;
        }
    }
    return clocks;
}

/* Bytes that all groups bring into their units, each for itself; constants once for all groups of a unit. */
static double l2_bytes(const launch *now) {
    double bytes = 0;
    for (size_t i = 0; i < now->work->count; i++) {
        const played_operand *operand = &now->work->operands[i];
        const double use = now->work->image ? 1 : line_use(now, operand);
        const bool kept = is_kept(now, operand);
        bytes += kept ? distinct_bytes(operand, now->global) * now->profile->compute_units
                      : distinct_bytes(operand, now->local) * now->groups / use;
    }
    return bytes;
}

static double memory_bytes(const launch *now) {
    double bytes = 0;
    for (size_t i = 0; i < now->work->count; i++) bytes += distinct_bytes(&now->work->operands[i], now->global);
    return bytes;
}

double played_launch_ns(const played_profile *profile, const played_work *work, const size_t global[3],
                        const size_t local[3]) {
    launch now = {.profile = profile, .work = work};
    shape(&now, global, local);
    occupancy(&now);
    const double clock_ghz = profile->clock_mhz / 1000;
    const double rounds = ceil(now.groups / profile->compute_units);
    const double hidden = fmin(1, now.resident_waves / profile->hide_waves);
    const double work_clocks = fmax(compute_clocks(&now), fmax(cache_clocks(&now), constant_clocks(&now)));
    const double wave_clocks = work_clocks / hidden;
    const double unit_ns = rounds * (now.waves * wave_clocks + profile->group_clocks / now.resident_groups) / clock_ghz;
    const double l2_ns = l2_bytes(&now) / profile->l2_bytes_per_clock / clock_ghz;
    const double memory_ns = memory_bytes(&now) / profile->memory_gb_s;
    const double longest = fmax(unit_ns, fmax(l2_ns, memory_ns));
    return longest + hidden_share * (unit_ns + l2_ns + memory_ns - longest);
}

size_t played_group_limit(const played_profile *profile, const played_work *work) {
    const double room = profile->registers_kb * 1024 / (fmax(work->registers, 1) * register_bytes);
    const double most = fmin(profile->max_work_group, room);
    size_t limit = (size_t)fmin(32, profile->max_work_group);
    while (2 * limit <= most) limit *= 2;
    return limit;
}

int played_local_refused(const played_profile *profile, size_t limit, const size_t global[3], const size_t local[3]) {
    const double most[3] = {profile->max_items_x, profile->max_items_y, profile->max_items_z};
    for (int i = 0; i < 3; i++) {
        if ((double)local[i] > most[i]) return 2;
        if (local[i] == 0 || global[i] % local[i] != 0) return 1;
    }
    return local[0] * local[1] * local[2] > limit;
}

void played_driver_local(const played_profile *profile, size_t limit, const size_t global[3], size_t local[3]) {
    const double most[3] = {profile->max_items_x, profile->max_items_y, profile->max_items_z};
    size_t items = 1, wanted = limit < (size_t)profile->wave ? limit : (size_t)profile->wave;
    for (int i = 0; i < 3; i++) {
        local[i] = 1;
        while (2 * items <= wanted && global[i] % (2 * local[i]) == 0 && 2 * local[i] <= most[i]) {
            local[i] *= 2;
            items *= 2;
        }
    }
}
