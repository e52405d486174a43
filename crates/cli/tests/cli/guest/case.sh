says() {
    case $1 in
    *"$2"*) ;;
    *)
        echo "no '$2' in: $1"
        exit 1
        ;;
    esac
}
# Longer and fewer than elsewhere, since an emulated machine is slow.
slice='100 ms'
turns() {
    for rank in 10 21; do
        until is_stopped $rank; do :; done
        until ! is_stopped $rank; do :; done
    done
}

echo "what doctor says"
doctor=$("$rowlock" doctor --format json)
says "$doctor" "stops jobs by the mechanism \`$MECHANISM\`"
[ $LOWERING = none ] || says "$doctor" "lowers jobs by the mechanism \`$LOWERING\`"

# Whether both jobs have this in the list of jobs.
have() { [ $("$rowlock" jobs --format json | grep -c "\"mechanism\": *\"$1\"") = 2 ]; }
# Kills the agents of both jobs, and what else it is told. Nothing may be left.
kill_all() {
    kill -9 $job1 $job2 "$@"
    for rank in 10 11 20 21; do
        while kill -0 $(cat rank-$rank) 2> /dev/null; do sleep 0.01; done
    done
    "$rowlock" prun -- true
    expect_gone
    until [ -z "$(find /sys/fs/cgroup -name 'rowlock-*')" ]; do sleep 0.01; done
    rm rank-*
}

echo "jobs that end by themselves"
spin_on=$spin
spin=${spin%%while*}'until [ -e end ]; do :; done'
for job in 1 2; do start $job -n 2 --report-bindings 2>> bindings; done
turns
have $MECHANISM
touch end
wait $job1
wait $job2
expect_gone
says "$(cat bindings)" "${LIMITS:-rank 1: }"
spin=$spin_on
rm rank-*
echo "jobs that are killed"
for job in 1 2; do start $job -n 2; done
turns
if [ "$(id -u)" = 0 ]; then
    online=/sys/devices/system/cpu/cpu1/online
    now=$(date +%s)
    for change in "echo 0 > $online" "echo 1 > $online" "date -s @$((now - 100000))" "date -s @$((now + 100000))"; do
        echo "$change"
        eval "$change"
        turns
    done
    date -s @$now
fi
kill_all

echo "jobs that are lowered"
how=moderate
if [ $LOWERING = none ]; then
    code=0
    why=$("$rowlock" prun --how moderate -- true 2>&1) || code=$?
    [ $code = 2 ]
    says "$why" "not by a weight, because"
else
    for job in 1 2; do start $job -n 2; done
    has_weight() {
        read -r group < /proc/$process/cgroup
        group=/sys/fs/cgroup${group#0::}
        read -r weight < ${group%/rowlock-program*}/cpu.weight
        [ $weight = $1 ]
    }
    # The policy of a thread is the 41st field.
    is_lowered() {
        read -r process < rank-$1
        case $LOWERING in
        weight) has_weight 1 ;;
        idle) [ $(cut -d ' ' -f 41 /proc/$process/stat) = 5 ] ;;
        esac
    }
    until is_lowered 10 && ! is_lowered 20; do :; done
    until is_lowered 20 && ! is_lowered 10; do :; done
    have $LOWERING
    if is_stopped 10 || is_stopped 20; then exit 1; fi
    kill_all $(pgrep -P $job1) $(pgrep -P $job2)
fi

if [ -n "$LIMITS" ]; then
    says "$doctor" "1.5"
    says "$("$rowlock" prun --dry-run -n 3 -- true 2>&1)" "$LIMITS"
    code=0
    why=$("$rowlock" prun --memory "300 MiB" -- true 2>&1) || code=$?
    [ $code = 2 ]
    says "$why" "200 MiB"
fi
