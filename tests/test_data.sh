#!/bin/bash
# penstock data build and check as a user meets them: files, exit codes, messages, a disk that is full, an older pair.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
folder=$work/files
mkdir "$folder"

# expect CODE WORDS COMMAND...: the exit code, and the words somewhere in what it prints.
expect() {
  call "${@:3}"
  ends "$1"
  check grep -qF -- "$2" out err || fail "no '$2'"
}
# same FILE TEXT: the file's bytes in hexadecimal.
same() {
  local bytes
  bytes=$(od -An -v -tx1 "$1" | tr -d ' \n')
  check [ "$bytes" = "$2" ] || fail "$1 holds $bytes, not $2"
}
# only NAME...: nothing else is in the folder.
only() {
  local found
  found=$(cd "$folder" && echo *)
  check [ "$found" = "$*" ] || fail "files are $found, not $*"
}

printf 'Hi\n\377' > "$folder/a.txt" # its last byte is of no character, as in other encodings
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
expect 0 "1 byte is of no character of UTF-8, the first at 3" "$penstock" data build --output "$folder/text" "$folder/a.txt"
expect 0 "1 document, 56 tokens" "$penstock" data build --format text --output "$folder/text" "$folder/b.jsonl"
expect 2 "a.txt:1: not valid JSON" "$penstock" data build --format jsonl --output "$folder/wrong" "$folder/a.txt"
printf '{"text": "x"}\n{"body": "y"}\n' > "$folder/c.jsonl"
inputs=(a.txt b.jsonl c.jsonl empty.txt)
expect 2 "c.jsonl:2: no key 'text' (the line has 'body')" \
  "$penstock" data build --output "$folder/wrong" "$folder/a.txt" "$folder/c.jsonl"

# Options of the other word, and values of variables that are not set.
expect 2 "option --skip-bad goes with penstock data build, not with check" "$penstock" data check --skip-bad "$folder/out"
expect 2 "option --vocabulary goes with penstock data check, not with build" \
  "$penstock" data build --vocabulary 9 --output "$folder/wrong" "$folder/a.txt"
expect 2 "option --output has an empty value" "$penstock" data build --output= "$folder/a.txt"
expect 2 "argument 4 of penstock data is empty" "$penstock" data build --output "$folder/wrong" ''
expect 0 "with penstock data build:" "$penstock" data --help

# Mistakes; nothing is left behind, and what was there stays.
expect 2 "cannot read $folder/absent" "$penstock" data build --output "$folder/out" "$folder/a.txt" "$folder/absent"
expect 2 "hold no text" "$penstock" data build --output "$folder/wrong" "$folder/empty.txt"
expect 2 "needs --output" "$penstock" data build "$folder/a.txt"
expect 2 "needs text files" "$penstock" data build --output "$folder/wrong"
expect 2 "standard input (-) is named 2 times" "$penstock" data build --output "$folder/wrong" - -
expect 2 "Is a directory (name the files in it)" "$penstock" data build --output "$folder/wrong" "$folder"
expect 2 "allowed are text" "$penstock" data build --format csv --output "$folder/wrong" "$folder/a.txt"
expect 2 "folder must exist" "$penstock" data build --output "$folder/no/where" "$folder/a.txt"
name="faults that are not shown count too"
check test "$("$penstock" data check --vocabulary 1 "$folder/out" | sed -nE 's/.*: ([0-9]+) faults; .*/\1/p')" -gt 9 || fail "they do not"
expect 2 "data build or penstock data check" "$penstock" data make
expect 2 "needs prefixes" "$penstock" data check
expect 2 "allowed is a whole number" "$penstock" data check --vocabulary 1k "$folder/out"
only "${inputs[@]}" out.bin out.idx text.bin text.idx
same "$folder/out.bin" 480069000a00ff00000178000001c300a9000001

# Files may not grow beyond 64 KiB: as on a full disk, the write fails, and the older pair stands.
head -c 100000 /dev/zero | tr '\0' x > "$folder/large.txt"
# shellcheck disable=SC2016 # expanded by the inner shell
expect 1 "writing $folder/out.bin.tmp: File too large" bash -c 'ulimit -f 64 && exec "$@"' - \
  "$penstock" data build --output "$folder/out" "$folder/large.txt"
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

# What files are is seen from what is in them: lines of JSON under any name, and what is no text is refused with the remedy.
mkdir "$folder/in"
printf '{"text": "x"}\n{"text": "yz"}\n' > "$folder/in/more.jsonl"
two="2 documents, 5 tokens"
for name in more.ndjson MORE.JSONL more.json more.Json noname more.txt; do
  cp "$folder/in/more.jsonl" "$folder/in/$name"
  expect 0 "$two" "$penstock" data build --output "$folder/in/out" "$folder/in/$name"
done
expect 0 "noname has lines of JSON" "$penstock" data build --output "$folder/in/out" "$folder/in/noname"
expect 0 "$two" "$penstock" data build --output "$folder/in/out" - < "$folder/in/more.jsonl"
expect 0 "4 documents, 10 tokens" "$penstock" data build --output "$folder/in/out" "$folder/in/more.jsonl" - < "$folder/in/more.jsonl"
expect 0 "$two" "$penstock" data build --output "$folder/in/out" <(cat "$folder/in/more.jsonl")
gzip -c "$folder/in/more.jsonl" > "$folder/in/more.jsonl.gz"
for words in "" "--format text" "--format jsonl"; do
  # shellcheck disable=SC2086
  expect 2 "compressed with gzip, no text in UTF-8: zcat $folder/in/more.jsonl.gz | penstock data build --format jsonl" \
    "$penstock" data build $words --output "$folder/in/out" "$folder/in/more.jsonl.gz"
done
expect 2 "standard input is compressed with gzip" "$penstock" data build --output "$folder/in/out" - < "$folder/in/more.jsonl.gz"
cp "$folder/in/more.jsonl.gz" "$folder/in/it's.txt"
expect 2 "zcat '$folder/in/it'\\''s.txt' | penstock data build --output" \
  "$penstock" data build --output "$folder/in/out" "$folder/in/it's.txt"
expect 0 "1 document" "$penstock" data build --format bytes --output "$folder/in/out" "$folder/in/more.jsonl.gz"
# refuse WORDS BYTES [NAME]: a file of these bytes, as printf writes them.
refuse() {
  # shellcheck disable=SC2059
  printf "$2" > "$folder/in/${3:-file}"
  expect 2 "$1" "$penstock" data build --output "$folder/in/out" "$folder/in/${3:-file}"
}
refuse "compressed with zstd, no text in UTF-8: zstdcat" '\x28\xb5\x2f\xfd123456789'
refuse "compressed with xz" '\xfd7zXZ\x00zz'
refuse "compressed with bzip2" 'BZh91AY&SY123456789'
refuse "a zip archive" 'PK\x03\x04123456789'
refuse "a Parquet file" 'PAR1\x15\x04\x15'
refuse "a PDF file" '%%PDF-1.7\n'
refuse "text in UTF-16, no text in UTF-8: iconv -f UTF-16" '\xff\xfeh\0i\0'
refuse "32 are zero; iconv" "$(printf 'h\\0%.0s' {1..32})"
refuse "are of no character" "$(printf '\\xe9\\xea%.0s' {1..50})"
refuse "more.json is a list in JSON, an object a line is needed: jq -c '.[]'" '[\n  {"text": "a"}\n]\n' more.json
refuse "file is a list in JSON" '[{"text": "a"}]\n'
refuse "jq -c '.[] | {text: .}'" '["a", "b"]\n' more.json
refuse "jq -c ." '{\n  "text": "a"\n}\n' more.json
refuse "no key 'text' (the line has 'id', 'body'); --key body" '{"id": 1, "body": "a"}\n' more.json
expect 0 "1 document, 2 tokens" "$penstock" data build --key body --output "$folder/in/out" "$folder/in/more.json"
seq 1 20000 > "$folder/in/half.txt"
head -c 30000 "$penstock" >> "$folder/in/half.txt"
expect 2 "half.txt is no text in UTF-8" "$penstock" data build --output "$folder/in/out" "$folder/in/half.txt"
printf '\xef\xbb\xbfhi' > "$folder/in/mark.txt"
expect 0 "1 document, 3 tokens" "$penstock" data build --output "$folder/in/out" "$folder/in/mark.txt"
printf '[1] a note\n{so it goes}\n' > "$folder/in/prose.txt"
expect 0 "1 document, 25 tokens" "$penstock" data build --output "$folder/in/out" "$folder/in/prose.txt"

# Other keys do not matter, and what is odd in a text is read and told.
deep=$(printf '[%.0s' {1..3000})$(printf ']%.0s' {1..3000})
printf '\xef\xbb\xbf{"text": "x"}\n\xef\xbb\xbf{"text": "x", "a": NaN, "b": [-Infinity, 1e400]}\r\n{"text": "x", "c": "\\ud800\t\xff"}\n{"text":"x","d":%s}\n' \
  "$deep" > "$folder/in/odd.jsonl"
expect 0 "4 documents, 8 tokens" "$penstock" data build --output "$folder/in/out" "$folder/in/odd.jsonl"
expect 0 "" "$penstock" data build --output "$folder/in/out" "$folder/in/odd.jsonl"
printf '{"text": "x"}\n{"text": "\\ud83d\\ude00\\udc00\xff\\n"}\n' > "$folder/in/odd.jsonl"
expect 0 "in 1 line, 2 the first, the text has bytes or escapes of no character" \
  "$penstock" data build --output "$folder/in/out" "$folder/in/odd.jsonl"
same "$folder/in/out.bin" 78000001f0009f0098008000ef00bf00bd00ef00bf00bd000a000001
printf '{"text": "x"}\n{"text": 3}\nnothing\n[]\n{"a": "b"}\n' > "$folder/in/bad.jsonl"
expect 2 "bad.jsonl:2: 'text' is a number, a string is needed (--skip-bad" \
  "$penstock" data build --output "$folder/in/out" "$folder/in/bad.jsonl"
expect 0 "4 bad lines skipped" "$penstock" data build --skip-bad --output "$folder/in/out" "$folder/in/bad.jsonl"
expect 0 '"skipped_bad": 4' "$penstock" data build --json --skip-bad --output "$folder/in/out" "$folder/in/bad.jsonl"

# Two builds of one output: the second is refused, and at every instant there is a whole pair.
mkdir "$folder/pair"
pair=$folder/pair/p
mkfifo "$folder/pair/slow"
"$penstock" data build --output "$pair" "$folder/pair/slow" > "$folder/pair/log" 2>&1 &
exec 3> "$folder/pair/slow"
for _ in {1..100}; do [ -e "$pair.bin.tmp" ] && break; sleep 0.05; done
expect 2 "another build writes $pair" "$penstock" data build --output "$pair" "$folder/a.txt"
printf 'slow text' >&3
exec 3>&-
wait $! || fail "the first of two builds: $(cat "$folder/pair/log")"
expect 0 "1 document (0 empty, longest 10 tokens)" "$penstock" data check "$pair"
rm "$folder/pair/slow" "$folder/pair/log"
for i in {1..8}; do "$penstock" data build --output "$pair" "$folder/large.txt" > "$folder/in/log$i" 2>&1 & done
wait
[ "$(grep -l '1 document' "$folder"/in/log? | wc -l)" -gt 0 ] || fail "no build of eight"
[ "$(grep -lE '1 document|another build writes' "$folder"/in/log? | wc -l)" = 8 ] ||
  fail "one of eight builds: $(cat "$folder"/in/log?)"
expect 0 "100001 tokens" "$penstock" data check "$pair"
[ "$(cd "$folder/pair" && echo *)" = "p.bin p.idx" ] || fail "left: $folder/pair/*"

# A kill at any instant: the old pair or the new one, and the next build clears what is left.
for i in {1..40}; do
  "$penstock" data build --output "$pair" "$folder/$([ $((i % 2)) = 0 ] && echo large.txt || echo a.txt)" > "$folder/in/log" 2>&1 &
  sleep "0.00$((RANDOM % 10))"
  kill -9 $! 2> /dev/null
  wait $! 2> /dev/null
  expect 0 "no fault; 1 document" "$penstock" data check "$pair"
done
# The instants between the renames, by hand: an index that is not in place yet belongs to the tokens that are not.
"$penstock" data build --output "$pair" "$folder/a.txt" > "$folder/in/log" 2>&1
"$penstock" data build --output "$folder/in/new" "$folder/in/mark.txt" > "$folder/in/log" 2>&1
cp "$folder/in/new.bin" "$pair.bin.tmp"
cp "$folder/in/new.idx" "$pair.idx.new"
expect 0 "5 tokens" "$penstock" data check "$pair"
rm "$pair.idx"
expect 0 "3 tokens" "$penstock" data check "$pair"
mv "$pair.bin.tmp" "$pair.bin"
expect 0 "3 tokens" "$penstock" data check "$pair"
expect 2 "hold no text" "$penstock" data build --output "$pair" "$folder/empty.txt"
expect 0 "3 tokens" "$penstock" data check "$pair"
[ "$(cd "$folder/pair" && echo *)" = "p.bin p.idx" ] || fail "left: $(ls "$folder/pair")"

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

finish
