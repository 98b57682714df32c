#!/bin/bash
# penstock evaluate: the loss of a checkpoint is the one that its run had logged, bit by bit, on any number of ranks and
# beside the run; what is asked wrongly is refused, and nothing in the run's folder changes.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
make_data other 200 5000
make_data few 7 900
write_deck "$deck"

# evaluate RANKS [ARGUMENT...]: of the run `run`; sets code and output.
evaluate() {
  local ranks=$1
  output=$work/evaluate.out
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n "$ranks" "$penstock" evaluate "$deck" -D "run.folder=$work/$run" "${@:2}" \
    > "$output" 2> "$work/evaluate.err" < /dev/null
  code=$?
  cat "$work/evaluate.err" >> "$output"
}
# get NAME: of the total in JSON, which stands behind the files.
get() { sed -nE "s/^ \"$1\": ([^,]*),?\$/\1/p" "$output"; }
is() { check [ "$(get "$1")" = "$2" ] || fail "$1 is '$(get "$1")', not '$2'"; }
same_loss() { # NUMBER OTHER, as doubles
  check awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 == b + 0) }' || fail "the loss is '$1', not '$2'"
}
list_folder() { find "$work/$run" -type f -exec md5sum {} + | sort; }

for family in llama gpt2; do
  name="$family: the validation loss of its run"
  write_deck "$deck" $family
  train $family 2 -D run.evaluate_every=6 -D run.evaluate_steps=2 -D data.validation=other
  ends 0
  logged=$(get_columns $family 9 | tail -n 1)
  list_folder > before
  for ranks in 1 2 3 4; do
    evaluate $ranks -D data.validation=other --rows 8 --json
    ends 0
    same_loss "$(get loss)" "$logged"
    is step 6
    is rows 8
    is labels 128
  done
  list_folder > after
  check diff before after > differences || fail "the folder changed: $(head -n 4 differences)"
done

# What other programs need of a checkpoint stands in it: here of a configuration that left most to defaults.
name="the configuration in a checkpoint"
get_attributes() { "$helper" attributes "$(get_checkpoint gpt2)" "$@"; }
get_attributes tie_word_embeddings eos_token_id n_inner vocab_size activation_function model_type bos_token_id > found
check diff <(printf '%s\n' 1 256 128 257 gelu_new gpt2 none) found > differences || fail "$(cat differences)"
check [ "$(get_attributes layer_norm_epsilon)" = 1.0000000000000001e-05 ] || fail "no epsilon"
check [ "$(get_attributes loss validation_loss)" = "$(tail -n 1 gpt2/metrics.csv |
  awk -F, '{ printf "%.17g\n%.17g", $2, $9 }')" ] || fail "the checkpoint has another loss than metrics.csv"

name="whole files, each by itself"
evaluate 3 --data other --data few --json
ends 0
cp "$output" both
is rows $((($(stat -c %s other.bin) / 2 - 1) / 16 + ($(stat -c %s few.bin) / 2 - 1) / 16))
total=$(get loss) sum=0 labels=0
for file in other few; do
  evaluate 2 --data $file --json
  loss=$(grep -A5 "\"file\": \"$file\"" both | sed -nE 's/^ *"loss": ([^,]*),?$/\1/p')
  same_loss "$(get loss)" "$loss"
  sum=$(awk -v s="$sum" -v l="$(get loss)" -v n="$(get labels)" 'BEGIN { printf "%.17g", s + l * n }')
  labels=$((labels + $(get labels)))
done
check awk -v t="$total" -v s="$sum" -v n=$labels 'BEGIN { d = t / (s / n) - 1; exit !(d < 1e-12 && d > -1e-12) }' ||
  fail "the total is $total, not $sum / $labels"
evaluate 1 --data other --data few
ends 0
says "gpt2/checkpoints/step-00000006.h5, after step 6"
says " [0-9.]+ +[0-9.]+  other\$"
says "all, each label the same"

name="a checkpoint by its name"
run=llama deck=$work/llama/used.yml
train llama 2 -D run.steps=8
evaluate 2 --data other --rows 8 --json
is step 8
cp llama/checkpoints/step-00000006.h5 alone.h5
evaluate 2 --data other --rows 8 --json --checkpoint alone.h5
ends 0
is step 6
says "alone.h5 is in no index.txt"
same_loss "$(get loss)" "$(get_columns llama 9 | sed -n 6p)"

name="less memory than training takes"
evaluate 1 --data other --rows 8 --json -D 'memory.device_limit=600 KiB'
ends 0
is step 8

name="beside the run"
deck=$work/deck.yml
write_deck "$deck"
start beside 2 -D run.steps=100000 -D run.checkpoint_every=5
wait_until has_step beside 12
evaluate 1 --data few --json
ends 0
check [ "$(get step)" -ge 5 ] || fail "step $(get step)"
touch beside/stop
run=beside output=$work/beside.out
wait_end
status_is beside "CHECKPOINTED step [0-9]+"

name="what is refused"
run=llama
evaluate 2
ends 2
says "'data.validation' .* is missing; evaluate needs it"
evaluate 1 --data nowhere
ends 2
says "nowhere"
evaluate 1 --data few --rows 0
ends 2
says "rows 0: "
evaluate 1 --data few --checkpoint nowhere.h5
ends 2
evaluate 1 --data few -D model.hidden_size=64
ends 2
run=nowhere
evaluate 2 --data few
ends 2
says "there is no whole checkpoint in .*/nowhere/checkpoints"
check [ ! -e nowhere ] || fail "a folder was made"
evaluate 5 --data few -D model.num_hidden_layers=1
ends 2

finish
