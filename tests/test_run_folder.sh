#!/bin/bash
# Run folders as users leave them: files emptied, removed, or folders in their place; fewer steps than were trained; weights
# from what is no checkpoint. Each is said once, STATUS tells of this life and not of the one before, and what can go on
# does.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"
train base 2 -D run.steps=4
ends 0
more=(-D run.steps=6)

# again FOLDER: a copy of the finished run.
again() { cp -r base "$1"; }

name="metrics.csv is a folder"
again metrics
rm metrics/metrics.csv
mkdir metrics/metrics.csv
train metrics 2 "${more[@]}"
ends 1
says_once '^penstock: error: .*metrics.csv'
status_is metrics "FAILED .*metrics.csv.*"
rmdir metrics/metrics.csv
train metrics 2 "${more[@]}"
ends 0
status_is metrics DONE

for file in log.txt checkpoints/index.txt metrics.jsonl; do # each is found before anything is written
  name="$file is a folder"
  again target
  rm target/$file
  mkdir target/$file
  train target 2 "${more[@]}"
  ends 2
  says_once "^penstock: error: cannot write .*target/$file: it is a folder"
  status_is target DONE
  rm -r target
done

name="an empty used.yml"
again used
: > used/used.yml
train used 2 "${more[@]}"
ends 2
says_once '^penstock: error: .*used/used.yml.*move it away.*is empty'
rm used/used.yml
train used 2 "${more[@]}"
ends 0
says "going on after step 4 from "

name="an index without its lines"
again index
: > index/checkpoints/index.txt
train index 2 "${more[@]}"
ends 0
says_once "warning: "
says "warning: .*is not in .*index.txt; its arrays agree"
says "going on after step 4 from "

name="a used.yml that was cut before run.steps: its default is not what was trained"
cp -r base cut
head -n 8 base/used.yml | head -c -1 > cut/used.yml
train cut 2 "${more[@]}"
ends 2
says "'model.model_type' was not set when this run began"

name="fewer steps than were trained"
again fewer
echo "FAILED on purpose" > fewer/STATUS
train fewer 2 -D run.steps=2
ends 0
says_once "warning: the run has 4 steps already, more than run.steps, which is 2"
status_is fewer DONE
check [ "$(get_last_step fewer)" = 4 ] || fail "metrics.csv ends with step $(get_last_step fewer)"

name="no step at all"
train nothing 2 -D run.steps=0
ends 0
says_not warning
status_is nothing DONE
check [ -s "$(get_checkpoint nothing 0)" ] || fail "there is no checkpoint of step 0"

name="weights from what is no checkpoint"
train from 2 -D "model.init_from=$work/base/checkpoints"
ends 2
says_once '^penstock: error: .*base/checkpoints is a folder, not a checkpoint'
says_not warning
train from 2 -D "model.init_from=$work/base/plan.h5"
ends 2
says_once '^penstock: error: .*base/plan.h5 is no checkpoint'
says_not warning
cp "$(get_checkpoint base)" copy.h5
train copied 2 -D "model.init_from=$work/copy.h5"
ends 0
says_once "warning: .*copy.h5 is in no index.txt"

finish
