/* A small model for tests of plans and graphs: `n_blocks` blocks, so 2 n_blocks + 2 layers. */
#ifndef PENSTOCK_TESTS_TINY_MODEL_H
#define PENSTOCK_TESTS_TINY_MODEL_H

#include "base/error.h"
#include "model/model.h"
#include "t.h"

struct model *make_tiny_model(int n_blocks, bool tied);

#endif
