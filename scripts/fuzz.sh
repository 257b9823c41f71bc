#!/usr/bin/env bash
# fuzz.sh SECONDS_PER_TARGET [TARGET...]: fuzzes the parsers of external input, one target after the
# other, and prints a line for each. It fails if an input crashes the target, takes longer than a second
# or needs more than 512 MB. Such inputs are in fuzz/artifacts; inputs that increase the coverage are
# kept in fuzz/found and tried first the next time. The committed corpora, which the ordinary tests try
# as well, are only read:
#   fuzz.sh keep [TARGET...]    adds to them the small inputs of fuzz/found that increase their coverage
#
# The compiler has to instrument the code for coverage, which only nightly releases accept;
# RUSTC_BOOTSTRAP=1 makes a stable one accept it as well. No sanitizer is used unless
# FUZZ_SANITIZER=address: the workspace forbids unsafe code, C code would not be checked, and without a
# sanitizer the measured memory is that of the code.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
(($# > 0)) || fail "usage: fuzz.sh SECONDS_PER_TARGET|keep [TARGET...]"

cargo_fuzz_version=0.13.2
most_megabytes=512
# The maximum size of inputs that are kept in the repository.
most_kept_bytes=2048
job=$1
shift

# The maximum size of an input in bytes: longer ones are slow to mutate, and increase the coverage only
# where lengths are bounded.
declare -A most_bytes=(
  [client_span]=4096 [coiled]=2048 [cursor]=1024 [document]=16384 [filter]=2048 [forwarded]=512 [global_id]=256
  [importer]=16384 [performance_report]=4096 [report]=8192 [return_path]=2500 [socket]=4096 [stored_report]=8192 [token]=4096
)
declare -A words=(
  [client_span]=report [report]=report [stored_report]=report [filter]=filter [document]=document
  [socket]=socket [token]=token [coiled]=coiled [performance_report]=form [importer]=importer
)

targets=("$@")
if ((${#targets[@]} == 0)); then
  for path in fuzz/fuzz_targets/*; do
    path=${path##*/}
    targets+=("${path%.*}")
  done
fi
for target in "${targets[@]}"; do
  [[ -n ${most_bytes[$target]:-} ]] || fail "there is no target $target in fuzz/fuzz_targets"
done

# --- What runs ---------------------------------------------------------------------------------------

has_rust=false
for target in "${targets[@]}"; do
  if [[ -f fuzz/fuzz_targets/$target.rs ]]; then has_rust=true; fi
done

if $has_rust; then
  if [[ $(cargo fuzz --version 2>/dev/null) != "cargo-fuzz $cargo_fuzz_version" ]]; then
    say "installing cargo-fuzz $cargo_fuzz_version"
    cargo install cargo-fuzz --version "=$cargo_fuzz_version" --locked --quiet
  fi
  compiler=(cargo)
  if cargo +nightly --version >/dev/null 2>&1; then
    compiler=(cargo +nightly)
  else
    export RUSTC_BOOTSTRAP=1
  fi
  # The versions of the shipped program, and those of the additional dependencies of fuzzing.
  cp Cargo.lock fuzz/Cargo.lock
  say "building the targets"
  # shellcheck disable=SC2086  # nothing, or a single word
  for target in "${targets[@]}"; do
    if [[ -f fuzz/fuzz_targets/$target.rs ]]; then
      "${compiler[@]}" fuzz build --sanitizer "${FUZZ_SANITIZER:-none}" "$target" >&2
    fi
  done
  built=$(rustc -vV | sed -n 's/^host: //p')
fi
if [[ " ${targets[*]} " == *" importer "* ]]; then
  python=$(find_python 11)
  python=$(python_env fuzz "$python" -r fuzz/requirements.txt -e ./python)
fi

clean_up_at_exit
# Stores of the targets that have one are created here, and deleted with it.
export TMPDIR=$workdir

# program TARGET: sets `command` to the command that runs it.
program() {
  if [[ -f fuzz/fuzz_targets/$1.rs ]]; then
    command=("fuzz/target/$built/release/$1")
  else
    command=("$python" "fuzz/fuzz_targets/$1.py")
  fi
}

# --- Keeping -----------------------------------------------------------------------------------------

keep() {
  local target=$1 command before
  program "$target"
  mkdir -p "fuzz/found/$target" "$workdir/$target"
  before=$(find "fuzz/corpus/$target" -type f | wc -l)
  find "fuzz/found/$target" -type f -size -"$((most_kept_bytes + 1))"c -exec cp -t "$workdir/$target" {} +
  "${command[@]}" -merge=1 -rss_limit_mb=2048 "fuzz/corpus/$target" "$workdir/$target" >"$workdir/$target.out" 2>&1 ||
    fail "merging $target failed: $(tail -n 3 "$workdir/$target.out")"
  printf '%s: %d of %d kept, %s\n' "$target" "$(find "fuzz/corpus/$target" -type f | wc -l)" \
    "$(find "$workdir/$target" -type f | wc -l)" "$before before"
}

if [[ $job == keep ]]; then
  for target in "${targets[@]}"; do keep "$target"; done
  exit
fi
[[ $job =~ ^[1-9][0-9]*$ ]] || fail "the seconds per target are a number: $job"

# --- Running -----------------------------------------------------------------------------------------

statistic() { sed -n "s/^stat::$1: *//p" "$workdir/out" | tail -n 1; }

# milliseconds INPUT: prints the processor time of a separate process for this input, including its
# start; a tenth of the elapsed time if that is more, since a waiting process uses no processor time. It
# is the minimum of three runs, and a minute for an input that does not end.
milliseconds() {
  local TIMEFORMAT='%U %S %R' times='' took
  for _ in 1 2 3; do
    took=$({ time "${command[@]}" -timeout=60 -runs=1 "$1" >"$workdir/trial" 2>&1; } 2>&1) || took='60 0 60'
    times+=$took$'\n'
  done
  awk 'NF { took = $1 + $2 > $3 / 10 ? $1 + $2 : $3 / 10; if (!least || took < least) least = took }
    END { print int(1000 * least) }' <<<"$times"
}

# slow_by_itself TARGET INPUT: succeeds if the input takes more than a second longer than an ordinary
# input. Other processes on the machine take time as well, and a repetition in the same process may find
# state that the first run left.
slow_by_itself() {
  local other
  other=$(find "fuzz/corpus/$1" -type f | sort | sed -n 1p)
  (($(milliseconds "$2") - $(milliseconds "$other") > 1000))
}

# run TARGET SECONDS: fuzzes one target and prints its line.
run() {
  local target=$1 left=$2 command dictionary=() runs=0 rss=0 slowest=0 result=ok found begun status artifact
  program "$target"
  mkdir -p "fuzz/found/$target" "fuzz/artifacts/$target"
  if [[ -n ${words[$target]:-} ]]; then dictionary=("-dict=fuzz/dictionaries/${words[$target]}.dict"); fi
  while ((left > 0)); do
    begun=$SECONDS status=0
    rm -f "$workdir/out"
    "${command[@]}" "fuzz/found/$target" "fuzz/corpus/$target" -max_total_time="$left" -timeout=1 \
      -rss_limit_mb="$most_megabytes" -max_len="${most_bytes[$target]}" "${dictionary[@]}" -print_final_stats=1 \
      -artifact_prefix="fuzz/artifacts/$target/" -reload=0 -verbosity=1 >"$workdir/out" 2>&1 || status=$?
    left=$((left - (SECONDS - begun)))
    runs=$((runs + $(statistic number_of_executed_units || true)))
    found=$(statistic peak_rss_mb) && if ((${found:-0} > rss)); then rss=$found; fi
    found=$(statistic slowest_unit_time_sec) && if ((${found:-0} > slowest)); then slowest=$found; fi
    if ((status == 0)); then break; fi
    artifact=$(sed -n 's/^.*Test unit written to \(.*\)$/\1/p' "$workdir/out" | tail -n 1)
    if [[ $artifact == */timeout-* || $artifact == */slow-unit-* ]] && ! slow_by_itself "$target" "$artifact"; then
      rm -f "$artifact"
      continue
    fi
    result="failed: ${artifact:-status $status}"
    cp "$workdir/out" "fuzz/artifacts/$target/log"
    break
  done
  printf '%-18s %10d runs in %5d s, %4d MB at the most, slowest %2d s: %s\n' \
    "$target" "$runs" "$(($2 - (left > 0 ? left : 0)))" "$rss" "$slowest" "$result"
  [[ $result == ok ]]
}

for target in "${targets[@]}"; do
  run "$target" "$job" || failed_steps+=("$target")
done
verdict
