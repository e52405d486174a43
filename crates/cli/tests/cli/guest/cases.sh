# Runs each case, and says whether it has passed.
groups=/sys/fs/cgroup
echo "+cpu +cpuset +memory" > $groups/cgroup.subtree_control

# Makes a group that belongs to a user, as systemd does.
delegate() {
    mkdir $groups/$1
    chown 1000:1000 $groups/$1
    for file in procs subtree_control threads; do chown 1000:1000 $groups/$1/cgroup.$file; done
}

# Runs the case in a group as a user. Jobs must be stopped and lowered by these mechanisms.
check() {
    name=$1 group=$groups/$2 user=$3
    export MECHANISM=$4 LOWERING=$5 LIMITS=$6 TABLES=/tmp/$name ROWLOCK_TABLE=/tmp/$name TMPDIR=/tmp/$name
    mkdir $TABLES
    chown $user:$user $TABLES
    cd $TABLES
    if sh -c 'echo $$ > $0/cgroup.procs && exec "$@"' $group /programs/setpriv --reuid $user --regid $user --clear-groups \
        timeout -s KILL 200 sh /case /programs/rowlock > /tmp/log 2>&1
    then echo "passed: $name"
    else
        cat /tmp/log
        echo "failed: $name"
    fi
}

check root-in-the-outermost-group "" 0 freeze weight
mkdir $groups/ordinary
check root-in-a-group ordinary 0 freeze weight
delegate delegated
check user-in-a-delegated-group delegated 1000 freeze none
delegate managed
echo +cpu > $groups/managed/cgroup.subtree_control
delegate managed/inner
check user-in-a-group-of-a-delegated-one managed/inner 1000 freeze weight
check user-without-delegation ordinary 1000 signals none
mkdir $groups/limited
echo 150000 100000 > $groups/limited/cpu.max
echo 200M > $groups/limited/memory.max
check root-with-limits limited 0 signals idle "a quota allows 1.5 of 2 CPUs"
