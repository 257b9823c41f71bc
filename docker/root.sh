#!/bin/sh
# root.sh DIRECTORY BINARY: lays out the file system of the image in a directory: the program, the libraries it names, the user it
# runs as, and a place for its data. There is no shell in it, and nothing else that could be run. Only root gives the place for the
# data to its owner; what makes an image of the directory sets the owners itself.
set -eu
root=$1
binary=$2
# The modes of the files do not depend on who runs this.
umask 022

install -d -m 755 "$root/etc" "$root/usr/local/bin" "$root/var/lib"
# Where Docker mounts its own, also on a root that is read-only.
install -d -m 755 "$root/dev" "$root/proc" "$root/sys"
install -d -m 1777 "$root/tmp"
install -m 755 "$binary" "$root/usr/local/bin/galvo"

# "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)", and the loader by its path alone. Both variables would bring libraries of
# whoever runs this.
env -u LD_LIBRARY_PATH -u LD_PRELOAD ldd "$binary" | sed -n 's|^[^/]*\(/[^ ]*\) (0x.*)$|\1|p' | while read -r library; do
  install -D -m 755 "$library" "$root$library"
done

echo 'galvo:x:10001:10001::/var/lib/galvo:/nonexistent' >"$root/etc/passwd"
echo 'galvo:x:10001:' >"$root/etc/group"
# What the host says of names first, then those who know all of them.
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
install -d -m 700 "$root/var/lib/galvo"
if [ "$(id -u)" -eq 0 ]; then chown 10001:10001 "$root/var/lib/galvo"; fi
