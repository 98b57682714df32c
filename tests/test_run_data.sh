#!/bin/bash
# What a run reads is bound by its content, not by names: ranks with other copies, data or a model that changed between two
# lives, and files that are cut or written over while they are read are refused; the same content goes on from any place.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
make_data other 40 500
write_deck "$deck"
[ -e data.idx ] || exit 1

# train_in RUN FOLDER FOLDER [ARGUMENT...]: a job of two ranks in folders of their own.
train_in() {
  local first=$2 second=$3
  run=$1 output=$work/$1.out
  shift 3
  timeout -k 5 "$job_seconds" "${launcher[@]}" \
    -n 1 -wdir "$first" "$penstock" "${command[@]:-train}" "$deck" -D "run.folder=$work/$run" "$@" : \
    -n 1 -wdir "$second" "$penstock" "${command[@]:-train}" "$deck" -D "run.folder=$work/$run" "$@" \
    > "$output" 2>&1 < /dev/null
  code=$?
}
# refused TEXT: before the first step, by one message.
refused() {
  ends 2
  says_once '^penstock: error: '
  says "$1"
  says_not '^#   step'
}

name="copies that differ between ranks"
command=(train)
mkdir A B C
cp data.* A
cp other.bin B/data.bin
cp other.idx B/data.idx
cp data.* C
train_in copies A B
refused "on rank 1 .*data.train: data is not the same on all ranks: here it has [0-9]+ tokens in 1 document .*, on rank 0 .* [0-9]+ tokens in 1 document"
command=(verify)
train_in copies A B
refused "on rank 1 .*data.train: data is not the same on all ranks"
command=(train)
name="copies that differ by one token"
printf '\101' | dd of=C/data.bin bs=1 seek=2000 conv=notrunc 2> /dev/null
train_in copies A C
refused "data is not the same on all ranks"
name="validation data that differ"
train_in copies A B -D "data.train=$work/data" -D data.validation=data -D run.evaluate_every=2
refused "data.validation: data is not the same on all ranks"
name="equal copies, under other names too"
cp data.* C
train_in same A C
ends 0
timeout -k 5 "$job_seconds" "${launcher[@]}" -n 1 "$penstock" train "$deck" -D "run.folder=$work/names" : \
  -n 1 "$penstock" train "$deck" -D "run.folder=$work/names" -D data.train=A/data > "$output" 2>&1 < /dev/null
code=$?
ends 0
same_run same names

name="data that changed between two lives"
begin() {
  rm -rf "$1"
  cp data.bin "$1.bin"
  cp data.idx "$1.idx"
  train "$1" 2 -D run.steps=3 -D "data.train=$1"
  ends 0
}
begin changed
"$penstock" data build --output changed other.txt > /dev/null
cp changed/log.txt before.txt
train changed 2 -D data.train=changed
refused "data.train: changed had [0-9]+ tokens in 1 document .* when this run began, changed has now [0-9]+ tokens"
name="data that grew"
begin grown
"$penstock" data build --output grown data.txt other.txt > /dev/null
train grown 2 -D data.train=grown
refused "grown had [0-9]+ tokens in 1 document .*, grown has now [0-9]+ tokens in 2 documents"
name="one token that changed"
begin token
printf '\101' | dd of=token.bin bs=1 seek=4000 conv=notrunc 2> /dev/null
train token 2 -D data.train=token
refused "token had .*, token has now"
name="one file more, one less"
begin count
train count 2 -D "data.train=[count, other]"
refused "'data.train' was 1 file when this run began and is 2 files now"
name="files in another order"
train order 2 -D run.steps=3 -D "data.train=[data, other]"
ends 0
train order 2 -D "data.train=[other, data]"
refused "data had .*, other has now"

name="the same content from another place"
train whole 2
ends 0
begin moved
mkdir place
mv moved.bin place/x.bin
mv moved.idx place/x.idx
train moved 2 -D data.train=place/x
ends 0
says "data.train lies elsewhere than before, its content is the same: place/x, which was moved"
same_run whole moved
for place in ./place/x "$work/place/x"; do
  train moved 2 -D "data.train=$place" -D run.steps=7
  ends 0
  says_not "lies elsewhere"
done
name="validation data may change"
train validation 2 -D run.steps=3 -D data.validation=other -D run.evaluate_every=1
ends 0
train validation 2 -D run.steps=4 -D data.validation=A/data -D run.evaluate_every=1 -D run.keep_best=true
ends 0
says "warning: data.validation: other had .* when this run began, A/data has now .*validation losses from here on are of other rows"
train validation 2 -D run.steps=5 -D data.validation=A/data
ends 0
train validation 2 -D run.steps=6 -D "data.validation=$work/A/data" -D run.evaluate_every=1
ends 0
says "data.validation lies elsewhere than before|going on after step 5"
says_not "are of other rows"

name="weights to begin from that differ between ranks"
cp "$(get_checkpoint whole)" A/init.h5
cp "$(get_checkpoint order)" C/init.h5
train_in init A C -D model.init_from=init.h5
refused "on rank 1 .*init.h5 is not the same on all ranks: here it is of step 3, .*, on rank 0 .* of step 6, "
cp A/init.h5 C/init.h5
train_in begun A C -D model.init_from=init.h5
ends 0

name="tables of times that differ between ranks"
{
  echo layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,output_bytes
  for layer in $(seq 0 9); do echo "$layer,1,1,1,1,8,8,8,8"; done
} > A/times.csv
sed 's/^3,1/3,2/' A/times.csv > C/times.csv
timed=(-D device.backend=timed -D cost.table=times.csv -D run.steps=2)
train_in timed A C "${timed[@]}"
refused "on rank 1 .*cost.table: times.csv is another file than that of rank 0"
cp A/times.csv C
train_in timed A C "${timed[@]}"
ends 0

# A configuration in a file, in two lives.
name="a configuration that changed"
write_config() {
  cat > "$1" << JSON
{"model_type": "llama", "vocab_size": 257, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, $2}
JSON
}
sed '/^model:/,$d' "$deck" > config.yml
printf 'model:\n  config: config.json\n' >> config.yml
write_config config.json '"rope_theta": 10000'
inline=$deck
deck=$work/config.yml
train config 2 -D run.steps=3
ends 0
write_config config.json '"rope_theta": 500000'
train config 2
refused "config.json: 'rope_theta' was 10000 when this run began and is 500000 now"
name="a configuration of the same meaning elsewhere"
mkdir models
write_config models/c.json '"use_cache": true'
train config 2 -D "model.config=$work/models/c.json"
ends 0
same_run whole config
deck=$inline

name="a checkpoint of before, which does not tell its data"
begin old
"$helper" drop "$(get_checkpoint old)" data || fail "the attribute is not dropped"
sed -i '/^#/!d' old/checkpoints/index.txt
train old 2 -D data.train=old
ends 0
says "does not say what data it was trained on"
begin old
"$helper" drop "$(get_checkpoint old)" data || fail "the attribute is not dropped"
sed -i '/^#/!d' old/checkpoints/index.txt
train old 2 -D data.train=other
refused "'data.train' was \[old\] when this run began and is \[other\] now"

name="a token file that is cut, or written over, in a running job"
for part in bin idx; do
  for batching in fixed padded; do
    begin cut
    start "cut" 2 -D run.steps=1000000 -D run.trace_every=0 -D data.train=cut -D "data.batching=$batching" \
      -D "run.folder=$work/cut-$part-$batching"
    run=cut-$part-$batching
    wait_until has_step "$run" 5
    truncate -s 0 "cut.$part"
    wait_end
    status_is "$run" "FAILED .*cut.$part changed while it was read: it has 0 bytes, it had [0-9]+"
  done
done
begin over
start over 2 -D run.steps=1000000 -D run.trace_every=0 -D data.train=over
wait_until has_step over 5
touch over.bin
sleep 0.5
wait_until has_step over $(($(get_last_step over) + 5))
tr '0' '1' < data.bin > over.new
dd if=over.new of=over.bin conv=notrunc status=none # never shorter in between
wait_end
status_is over "FAILED .*over.bin changed while it was read: its content is another than it was"

finish
