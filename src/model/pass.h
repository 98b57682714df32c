/* Passes over the op table of a layer: what a device runs, costs price, profiles and reports tell apart. */
#ifndef PENSTOCK_MODEL_PASS_H
#define PENSTOCK_MODEL_PASS_H

/* A full backward is its input pass and its weight pass. The numbers stand in trace.h5 and profile.h5. */
enum pass {
  PASS_FORWARD,
  PASS_INPUT,
  PASS_WEIGHT,
  PASS_COUNT,
  PASS_RECOMPUTE =
      PASS_COUNT, /* the forward again, in R: told apart by reports; costs and devices run it as a forward */
  PASS_REPORT_COUNT
};
#define PASS_NAMES "forward", "input", "weight"
#define PASS_REPORT_NAMES PASS_NAMES, "recompute"

#endif
