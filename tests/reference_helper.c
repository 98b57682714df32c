/* Started by test_verify.sh: changes one thing in a reference file.
 *
 *   reference_helper FILE scale DATASET FACTOR     every element times FACTOR
 *   reference_helper FILE text ATTRIBUTE VALUE     the root's attribute becomes VALUE
 *   reference_helper FILE move DATASET NAME        under another name
 *   reference_helper FILE remove DATASET
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int scale(hid_t file, const char *path, double factor) {
  hid_t set = H5Dopen2(file, path, H5P_DEFAULT), space = set < 0 ? -1 : H5Dget_space(set);
  hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  if (n <= 0) return -1;
  double *values = malloc((size_t)n * sizeof *values);
  int status = H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  for (hssize_t i = 0; i < n; i++) values[i] *= factor;
  if (status >= 0) status = H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  free(values);
  H5Sclose(space);
  H5Dclose(set);
  return status;
}

static int set_text(hid_t file, const char *name, const char *value) {
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  if (H5Aexists(file, name) > 0) H5Adelete(file, name);
  hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  int status = attribute < 0 ? -1 : H5Awrite(attribute, type, &value);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
  return status;
}

static int change(hid_t file, char **argv, int n) {
  if (n == 3 && !strcmp(argv[0], "scale")) return scale(file, argv[1], strtod(argv[2], NULL));
  if (n == 3 && !strcmp(argv[0], "text")) return set_text(file, argv[1], argv[2]);
  if (n == 3 && !strcmp(argv[0], "move")) return H5Lmove(file, argv[1], file, argv[2], H5P_DEFAULT, H5P_DEFAULT);
  if (n == 2 && !strcmp(argv[0], "remove")) return H5Ldelete(file, argv[1], H5P_DEFAULT);
  return -1;
}

int main(int argc, char **argv) {
  hid_t file = argc > 2 ? H5Fopen(argv[1], H5F_ACC_RDWR, H5P_DEFAULT) : -1;
  if (file < 0) return 1;
  int status = change(file, argv + 2, argc - 2);
  if (H5Fclose(file) < 0) status = -1;
  if (status < 0) fprintf(stderr, "%s: %s failed\n", argv[1], argv[2]);
  return status < 0;
}
