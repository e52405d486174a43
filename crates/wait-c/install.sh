#!/usr/bin/env bash
# Builds the library of the crate in whose folder this is, or a link to this, and installs its
# libraries, headers and pkg-config file below PREFIX.
# If DESTDIR is set, it precedes PREFIX in the paths of the installed files, but not in their
# content.
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 != /* ]]; then
    echo "usage: install.sh PREFIX (an absolute path, such as /usr/local)" >&2
    exit 2
fi
prefix=$1
to=${DESTDIR:-}$prefix
cd "$(dirname "$0")"
crate=$(basename "$PWD")
name=${crate%-c}
library=librowlock_$name

cargo build --locked --release --package "rowlock-$crate"
built=$(cargo metadata --locked --offline --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' ../../Cargo.toml)

install -d "$to/lib/pkgconfig"
install -m 755 "$built/$library.so" "$to/lib/$library.so.$version"
ln -sf "$library.so.$version" "$to/lib/$library.so.0"
ln -sf "$library.so.0" "$to/lib/$library.so"
install -m 644 "$built/$library.a" "$to/lib"
find include -name '*.h*' -exec install -D -m 644 {} "$to/{}" \;
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "rowlock-$name.pc.in" > "$to/lib/pkgconfig/rowlock-$name.pc"
