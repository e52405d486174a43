#!/usr/bin/env bash
# Builds librowlock_wait and installs its libraries, headers and pkg-config file below PREFIX.
# If DESTDIR is set, it precedes PREFIX in the paths of the installed files, but not in their content.
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 != /* ]]; then
    echo "usage: install.sh PREFIX (an absolute path, such as /usr/local)" >&2
    exit 2
fi
prefix=$1
to=${DESTDIR:-}$prefix
cd "$(dirname "$0")"

cargo build --locked --release --package rowlock-wait-c
built=$(cargo metadata --locked --offline --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' ../../Cargo.toml)

install -d "$to/lib/pkgconfig" "$to/include/rowlock"
install -m 755 "$built/librowlock_wait.so" "$to/lib/librowlock_wait.so.$version"
ln -sf "librowlock_wait.so.$version" "$to/lib/librowlock_wait.so.0"
ln -sf librowlock_wait.so.0 "$to/lib/librowlock_wait.so"
install -m 644 "$built/librowlock_wait.a" "$to/lib"
install -m 644 include/rowlock_wait.h "$to/include"
install -m 644 include/rowlock/barrier.hpp "$to/include/rowlock"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" rowlock-wait.pc.in > "$to/lib/pkgconfig/rowlock-wait.pc"
