/* Monotonic time. */
#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

/* Seconds since an arbitrary fixed point, never going backwards. */
double clock_seconds(void);

#endif
