#!/bin/sh
# Runs systemd as the first process of namespaces of its own, with the service of `rowlock pds` and no
# other: systemd.sh GROUP REPOSITORY ROWLOCK. The group, of version 2 of control groups, is for systemd.
set -e
group=$1 repository=$2 rowlock=$3
if [ -z "$INSIDE" ]; then
    mkdir "$group"
    echo $$ > "$group/cgroup.procs"
    INSIDE=yes exec unshare --fork --pid --mount --cgroup --uts --ipc --net --kill-child "$0" "$@"
fi

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /sys/fs/cgroup
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
units=/usr/lib/systemd/system
mount -t tmpfs -o mode=755 tmpfs /usr/lib/systemd/system-generators
mount -t tmpfs -o mode=755 tmpfs $units
mount -t tmpfs -o mode=755 tmpfs /etc/systemd
mkdir -p /run/systemd/system
for target in sysinit basic sockets shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' > $units/$target.target
done
printf '[Unit]\nDefaultDependencies=no\nWants=rowlock-pds.socket\n' > $units/test.target
cp "$rowlock" /run/rowlock-command
cp "$repository/systemd/rowlock-pds.socket" $units
# There is no journal here.
sed 's|/usr/bin/rowlock|/run/rowlock-command|; s|=journal|=append:/run/log|' \
    "$repository/systemd/rowlock-pds.service" > $units/rowlock-pds.service
container=test exec /usr/lib/systemd/systemd --system --unit=test.target --log-target=console
