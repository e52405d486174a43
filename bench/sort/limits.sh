#!/usr/bin/env bash
# Sorts a file with a budget, with and without a limit of the address space of twice the budget, in
# turns. Prints the seconds of each run, the budget that was used, and the ratio of the medians.
# usage: bench/sort/limits.sh [ROWLOCK [FOLDER [PAIRS]]]
set -euo pipefail
rowlock=$(realpath "${1:-target/release/rowlock}") folder=${2:-.} pairs=${3:-7}
place=$(mktemp -d -p "$folder")
trap 'rm -rf "$place"' EXIT
cd "$place"
head -c 1000000000 /dev/urandom > in

# The seconds and the budget of one sort.
sort_once() {
    "$rowlock" sort in out --record 100 --key 0:10 --memory "$1" --tmp . --format json |
        awk -F'[:,]' '/"elapsed_ns"/ && !time { time = $2 / 1e9 } /"memory_bytes"/ { bytes = $2 } END { print time, bytes }'
}

for budget in 64 256 1024; do
    for ((pair = 0; pair <= pairs; pair++)); do
        free=$(sort_once "${budget}MiB")
        limited=$(ulimit -v $((2 * budget * 1024)); sort_once "${budget}MiB")
        # The first pair warms up.
        ((pair == 0)) || echo "$budget $free $limited"
    done
done | tee runs | awk '
    { print $1 " MiB: " $2 " s without a limit; " $4 " s with one, in a budget of " $5 " bytes"; fflush() }'
echo "medians:"
for budget in 64 256 1024; do
    median() { awk -v of=$budget -v field="$1" '$1 == of { print $field }' runs | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
    awk -v of=$budget -v free="$(median 2)" -v limited="$(median 4)" \
        'BEGIN { printf "%s MiB: %.2f s without, %.2f s with the limit: %.3f times the speed\n", of, free, limited, free / limited }'
done
