#!/usr/bin/env bash
# empty-root.sh [COMMAND...]: runs a command, by default a shell, in an empty Debian: the packages that every Debian
# has, Python with venv and pip, and nothing else, as in a new container. It works as root or through sudo.
#   EMPTY_ROOT_SUITE  the release of Debian, by default trixie, with Python 3.13; bookworm has 3.11 and bullseye 3.9
#   EMPTY_ROOT_FILES  a directory whose content is copied into /root, where the command starts
#   EMPTY_ROOT_MOUNTS lines of a directory of this machine and where the command sees it, for what is too large to copy
# The system is made once, in target/empty-root-SUITE. The command sees a layer above it, in memory, so nothing that
# it changes stays, and it has its own processes, which end with it. The network is that of this machine.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

suite=${EMPTY_ROOT_SUITE:-trixie}
system=$target_dir/empty-root-$suite
as_root=()
if ((EUID != 0)); then as_root=(sudo "--preserve-env=http_proxy,https_proxy,no_proxy"); fi

# mmdebstrap takes half of debootstrap's time. Debian's keys are missing on other systems.
if ! command -v mmdebstrap >/dev/null || [[ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
  install_packages mmdebstrap debian-archive-keyring
fi
mkdir -p "$target_dir"
(
  flock 9
  if [[ ! -d $system ]]; then
    say "making ${system#"$root/"}"
    "${as_root[@]}" rm -rf "$system.part"
    # A mirror may keep lists of packages for longer than they are valid.
    "${as_root[@]}" mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
      --include=python3,python3-venv,python3-pip,ca-certificates \
      --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Check-Valid-Until "false"' \
      --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
      "$suite" "$system.part" >&2 || fail "the empty Debian could not be made"
    # An incomplete one never counts.
    "${as_root[@]}" mv "$system.part" "$system"
  fi
) 9>"$system.lock"

files=${EMPTY_ROOT_FILES:+$(realpath -e "$EMPTY_ROOT_FILES")}
if (($# == 0)); then set -- bash; fi
# A machine behind a proxy has its own settings and certificates, which Node.js looks for elsewhere.
settings=()
for name in http_proxy https_proxy no_proxy NODE_EXTRA_CA_CERTS; do
  if [[ -n ${!name:-} ]]; then settings+=("$name=${!name}"); fi
done
# The mounts are gone with the namespace.
# shellcheck disable=SC2016  # expanded by the inner shell
exec "${as_root[@]}" unshare --mount --pid --ipc --fork --kill-child bash -euc '
  system=$1 files=$2 mounts=$3
  shift 3
  mount -t tmpfs tmpfs /mnt
  mkdir /mnt/{changes,work,root}
  mount -t overlay -o "lowerdir=$system,upperdir=/mnt/changes,workdir=/mnt/work" overlay /mnt/root
  cd /mnt/root
  mount -t proc proc proc
  mount -t sysfs -o ro sysfs sys
  mount -t tmpfs -o mode=1777 tmpfs dev/shm
  mount -t tmpfs -o mode=1777 tmpfs tmp
  for file in resolv.conf hosts ssl/certs/ca-certificates.crt pip.conf; do
    if [[ -e /etc/$file ]]; then cp -L --remove-destination "/etc/$file" "etc/$file"; fi
  done
  if [[ -n $files ]]; then cp -a --no-preserve=ownership "$files/." root; fi
  while read -r from to; do
    if [[ -z $from ]]; then continue; fi
    mkdir -p "./$to"
    mount --bind "$from" "./$to"
  done <<<"$mounts"
  exec chroot . env -i --chdir=/root HOME=/root "TERM=${TERM:-dumb}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' enter "$system" "$files" "${EMPTY_ROOT_MOUNTS:-}" "${settings[@]}" "$@"
