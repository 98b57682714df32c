#!/bin/bash
# penstock data build and check as a user meets them: files, exit codes, messages, a disk that is full, an older pair.
set -u
penstock=${PENSTOCK:-./penstock}
folder=$(mktemp -d test-XXXXXX)
trap 'rm -rf "$folder"' EXIT
failures=0

# expect CODE WORDS COMMAND...: the exit code, and the words somewhere in what it prints.
expect() {
  local code=$1 words=$2 output status
  shift 2
  output=$("$@" 2>&1)
  status=$?
  if [ "$status" != "$code" ] || [[ $output != *"$words"* ]]; then
    echo "failed: $*"
    echo "  exit code $status, expected $code; expected words: $words"
    echo "  output: $output"
    failures=$((failures + 1))
  fi
}
# same FILE TEXT: the file's bytes in hexadecimal.
same() {
  local bytes
  bytes=$(od -An -v -tx1 "$1" | tr -d ' \n')
  if [ "$bytes" != "$2" ]; then
    echo "failed: $1 holds $bytes, expected $2"
    failures=$((failures + 1))
  fi
}
# only NAME...: nothing else is in the folder.
only() {
  local found
  found=$(cd "$folder" && echo *)
  if [ "$found" != "$*" ]; then
    echo "failed: files are $found, expected $*"
    failures=$((failures + 1))
  fi
}

printf 'Hi\n\377' > "$folder/a.txt"
: > "$folder/empty.txt"
printf '{"text": "x"}\n\n{"text": "", "n": 1}\n{"text": "\\u00e9"}\n' > "$folder/b.jsonl"
inputs=(a.txt b.jsonl empty.txt)
set -- "$folder/a.txt" "$folder/empty.txt" "$folder/b.jsonl"

expect 0 "2 empty documents skipped" "$penstock" data build --output "$folder/out" "$@"
expect 0 "3 documents, 10 tokens (uint16), vocabulary 257" "$penstock" data build --output "$folder/out" "$@"
same "$folder/out.bin" 480069000a00ff00000178000001c300a9000001
only "${inputs[@]}" out.bin out.idx
expect 0 "no fault; 3 documents (0 empty, longest 5 tokens), 10 tokens (uint16), ids 10 to 256" \
  "$penstock" data check "$folder/out"
expect 0 '"tokens": 10' "$penstock" data check --json "$folder/out"
latin=$folder/l$(printf '\344')
expect 0 "1 document" "$penstock" data build --output "$latin" "$folder/a.txt"
expect 0 "$(printf 'l\357\277\275",')" "$penstock" data check --json "$latin"
rm "$latin".*
expect 0 '"documents": 3' "$penstock" data build --json --output "$folder/out" "$@"
expect 2 "document 0, position 3: token id 255 is outside the vocabulary of 200" \
  "$penstock" data check --vocabulary 200 "$folder/out"

# A JSON lines file taken as text, and text as JSON lines.
expect 0 "1 document, 56 tokens" "$penstock" data build --format text --output "$folder/text" "$folder/b.jsonl"
expect 2 "a.txt:1: not valid JSON" "$penstock" data build --format jsonl --output "$folder/wrong" "$folder/a.txt"
printf '{"text": "x"}\n{"body": "y"}\n' > "$folder/c.jsonl"
inputs=(a.txt b.jsonl c.jsonl empty.txt)
expect 2 "c.jsonl:2: no key 'text' (the line has 'body')" \
  "$penstock" data build --output "$folder/wrong" "$folder/a.txt" "$folder/c.jsonl"

# Mistakes; nothing is left behind, and what was there stays.
expect 2 "cannot read $folder/absent" "$penstock" data build --output "$folder/out" "$folder/a.txt" "$folder/absent"
expect 2 "hold no text" "$penstock" data build --output "$folder/wrong" "$folder/empty.txt"
expect 2 "needs --output" "$penstock" data build "$folder/a.txt"
expect 2 "needs text files" "$penstock" data build --output "$folder/wrong"
expect 2 "allowed are text" "$penstock" data build --format csv --output "$folder/wrong" "$folder/a.txt"
expect 2 "folder must exist" "$penstock" data build --output "$folder/no/where" "$folder/a.txt"
expect 2 "data build or penstock data check" "$penstock" data make
expect 2 "needs prefixes" "$penstock" data check
expect 2 "allowed is a whole number" "$penstock" data check --vocabulary 1k "$folder/out"
only "${inputs[@]}" out.bin out.idx text.bin text.idx
same "$folder/out.bin" 480069000a00ff00000178000001c300a9000001

# Files may not grow beyond 64 KiB: as on a full disk, the write fails, and the older pair stands.
head -c 100000 /dev/zero > "$folder/large.txt"
limited() { (ulimit -f 64 && "$@"); }
expect 1 "writing $folder/out.bin.tmp: File too large" limited "$penstock" data build --output "$folder/out" "$folder/large.txt"
expect 0 "no fault; 3 documents" "$penstock" data check "$folder/out"
expect 0 "100001 tokens" "$penstock" data build --output "$folder/large" "$folder/large.txt"
if [ -w /dev/full ]; then
  # shellcheck disable=SC2016 # expanded by the inner shell
  for words in --help --version 'data check --json PREFIX' 'data check PREFIX' 'deck --reference'; do
    expect 1 "standard output cannot be written" sh -c '"$@" > /dev/full' - "$penstock" ${words/PREFIX/$folder/out}
  done
  ln -s /dev/full "$folder/full.bin.tmp"
  expect 1 "No space left on device" "$penstock" data build --output "$folder/full" "$folder/large.txt"
fi
only a.txt b.jsonl c.jsonl empty.txt large.bin large.idx large.txt out.bin out.idx text.bin text.idx

# Every fault of every file in one go.
head -c 50 "$folder/out.idx" > "$folder/cut.idx"
cp "$folder/out.bin" "$folder/cut.bin"
{ printf 'X'; tail -c +2 "$folder/out.idx"; } > "$folder/magic.idx"
head -c 16 "$folder/out.bin" > "$folder/magic.bin"
expect 2 "magic is \"XMIDIDX" "$penstock" data check "$folder/cut" "$folder/magic" "$folder/out"
expect 2 "sequence 2 has 3 tokens from byte 14" "$penstock" data check "$folder/cut" "$folder/magic"
expect 2 "which take 102 bytes; file has 50" "$penstock" data check "$folder/cut" "$folder/magic"
expect 2 "$folder/out: no fault" "$penstock" data check "$folder/cut" "$folder/out"
expect 2 "give the prefix" "$penstock" data check "$folder/out.bin"

[ "$failures" = 0 ]
