/* HDF5's file driver over an image (image.h): HDF5 reads and writes memory and never meets an error of the disk, so
 * that it can always close what it has opened; the disk is written by image_commit, whose errors are ours to report.
 * There is no locking in it, so none of NFS or Lustre is asked for. Only for store/h5*.c.
 */
#ifndef PENSTOCK_STORE_H5_DRIVER_H
#define PENSTOCK_STORE_H5_DRIVER_H

#include <hdf5.h>

struct image;

/* A file access property list for this image, to be closed by the caller; the image must outlive the file. The name
 * given to H5Fcreate or H5Fopen is for messages only. Negative on failure. */
hid_t h5_driver_make_access(struct image *image);

#endif
