/* Reads a Hugging Face config.json into the numbers that ops need: one table of keys for each family. Internal to
 * model. */
#ifndef PENSTOCK_MODEL_CONFIG_H
#define PENSTOCK_MODEL_CONFIG_H

#include "model/config_source.h"
#include "model/model.h"

/* How a family names its tensors in checkpoints. Templates with %d take the block's number. */
struct tensor_names {
  const char *token_table, *position_table;
  const char *mixer_norm, *qkv[3], *mixer_out; /* qkv[1] NULL: one fused matrix */
  const char *mlp_norm, *gate, *up, *down;
  const char *final_norm, *head;
  bool transposed; /* matrices are [in, out] */
};

struct family {
  const char *model_type;
  const char *class_name; /* Hugging Face's class of its models, as in `architectures` */
  const struct tensor_names *names;
  bool layer_norm, learned_positions, rope, gated;
  bool matrix_bias; /* every matrix has a bias, whatever the configuration says */
  bool qkv_bias;    /* queries, keys and values have one */
};

/* Fills in what the configuration's text says. The family table entry is returned in *family; attention_bias and
 * mlp_bias say which matrices have biases beyond the family's. See model_create for errors and notes. */
struct config_extra {
  const struct family *family;
  bool qkv_bias, mixer_out_bias, mlp_bias;
};
int config_read(const struct config_source *source, double init_std, struct model_config *config,
                struct config_extra *extra, char **notes);

#endif
