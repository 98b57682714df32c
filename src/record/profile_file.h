/* profile.h5: what was measured of a device (cost/profile.h) as tables /ops /sweeps /links /copies with attributes
 * format, version, device, model, date. By one rank alone.
 */
#ifndef PENSTOCK_RECORD_PROFILE_FILE_H
#define PENSTOCK_RECORD_PROFILE_FILE_H

#include "cost/profile.h"

/* Writes or replaces the file, whole or not at all. */
int profile_file_write(const char *path, const struct profile *profile);

/* *profile is owned by the caller; a file that is not there is STATUS_OK with *profile NULL. With path and
 * reason STATUS_MISTAKE for a file of another kind, STATUS_FAILED for a profile that is damaged, of another version, or
 * has numbers that no measurement gives; an HDF5 file that cannot be opened counts as a damaged profile. */
int profile_file_read(const char *path, struct profile **profile);

#endif
