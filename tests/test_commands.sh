#!/bin/bash
# What README, manual and the heads of decks tell to type runs as it is copied: their blocks of commands, in a folder that looks
# like the tree. Training takes a step or two of smaller batches in place of all; decks of large models are checked in its
# place. Blocks with words to be filled in (DECK, RUN, [--option]) say how a command is called, and are not run.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
need_launcher
export real_penstock=$penstock
real_mpiexec="$(command -v "${launcher[0]}") ${launcher[*]:1}"
export real_mpiexec
mkdir build bin texts
ln -s "$source/inputs" inputs
for i in 1 2 3; do seq $((1000 * i)) $((1000 * i + 900)) > texts/$i.txt; done
seq 1 900 > other.txt
printf '{"text": "%s"}\n' one two > more.jsonl
gzip -k more.jsonl

# In place of the program: shorter, or checked only.
cat > build/penstock << 'END'
#!/bin/bash
arguments=() small=(-D data.global_batch=4 -D data.sequence_length=64)
for argument; do
  case $argument in
    run.steps=*) argument=run.steps=2 ;;
    memory.device_limit=*) small=() ;;
    inputs/gpt2-124m.yml | inputs/llama-small.yml) [ "$1" = deck ] || exec "$real_penstock" deck "${@:2}" ;;
  esac
  arguments+=("$argument")
done
case $1 in
  train) small+=(-D run.steps=1) ;;
  profile) small+=(--seconds 0.1) ;;
  verify) small+=(--steps 1) ;;
  *) exec "$real_penstock" "$@" ;;
esac
[[ " $* " == *run.steps=* ]] && small=("${small[@]/run.steps=1/run.steps=2}")
"$real_penstock" "${arguments[@]}" "${small[@]}" 2> >(tee message >&2)
code=$?
if [[ $* == *"device_limit=20 MiB"* ]]; then # the manual shows its refusal
  [ $code = 2 ]
  exit
fi
exit $code
END
printf '#!/bin/bash\nexec $real_mpiexec "$@"\n' > bin/mpiexec
chmod +x build/penstock bin/mpiexec
export PATH=$work/bin:$PATH

# run_blocks FILE PREFIX: every block of lines that begin with the prefix, which is taken off.
run_blocks() {
  local block='' line
  while IFS= read -r line || [ -n "$line" ]; do
    if [[ $line == "$2"* ]]; then
      block+=${line#"$2"}$'\n'
      continue
    fi
    run_block "$1" "$block"
    block=
  done < "$source/$1"
  run_block "$1" "$block"
}
run_block() {
  [[ $2 =~ ^(export|mkdir|cat|zcat|penstock\ [a-z]*|build/penstock|mpiexec|\./quickstart\ +#)\  ]] || return
  [[ $2 == *penstock\ [a-z]* ]] || return
  [[ $2 =~ \ \[|DECK|RUN\ |RUN$|PLAN|FILE|PBS_NODEFILE|srun ]] && return
  last="a block of $1"
  check env PATH="$work/build:$PATH" bash -e -o pipefail -c "${2//.\/quickstart/true}" > out 2> err < /dev/null || fail "$2"
}

for file in README.md doc/user/quickstart.md doc/user/decks.md doc/user/predict.md doc/user/outputs.md doc/user/install.md \
  doc/user/obscura.md doc/user/restart.md doc/user/trouble.md; do
  run_blocks "$file" '    '
done
for file in inputs/quickstart.yml inputs/gpt2-124m.yml inputs/llama-small.yml; do run_blocks "$file" '#   '; done
finish 10
