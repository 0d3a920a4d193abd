/* What every device has in common: closing through its own table. */
#include "device/device.h"

void device_close(struct device **device)
{
    if (device != NULL && *device != NULL) {
        (*device)->ops->close(*device);
        *device = NULL;
    }
}
