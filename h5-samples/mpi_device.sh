#!/usr/bin/env bash
# Measures parallel HDF5 on a machine with a GPU that has neither parallel HDF5 nor Rust. An archive brings Debian's packages, and `chroot` enters them.
#
#     h5-samples/mpi_device.sh pack ARCHIVE                     on Debian, where `measure mpi` has run: makes the archive, some 60 MB
#     h5-samples/mpi_device.sh run ARCHIVE FOLDER [OPTION...]   on the other machine, as root: mpi.txt and mpi.csv go to FOLDER.
#                                                               Options are mpi.py's: --ranks 1,4,16
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root=/tmp/quire-mpi

pack() {
  local archive folder files
  archive="$(realpath "$1")"
  cd /
  folder="$(mktemp -d)"
  files="$(mktemp)"
  # All that these packages need, without what only people read or developers build with.
  apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    python3-h5py-mpi python3-mpi4py openmpi-bin bash coreutils | sed -n 's/^\([a-z][^:]*\).*/\1/p' | sort -u |
    xargs dpkg -L 2>/dev/null | sort -u | grep -v -E '^/usr/share/(doc|man|locale|info|X11|lintian)|numpy/.*/tests/|^/usr/include|^/(var|home|root|boot)|\.a$' |
    while read -r path; do
      [[ ! -e "$path" ]] || [[ -d "$path" && ! -L "$path" ]] || echo "${path#/}"
    done > "$files"
  # Links to alternatives, such as BLAS, are in no package.
  find usr/lib usr/bin -lname '/etc/alternatives/*' >> "$files"
  # Packages name some files by /lib and /bin, which are links into /usr.
  mkdir -p "$folder"/usr/{bin,lib,lib64,sbin}
  cp -P /bin /lib /lib64 /sbin "$folder"
  tar -C / -cf - --files-from "$files" etc/alternatives etc/passwd etc/group etc/openmpi etc/ld.so.conf etc/ld.so.conf.d |
    tar -C "$folder" --keep-directory-symlink -xf -
  mkdir -p "$folder/quire/h5-samples" "$folder/quire/peers" "$folder"/{dev,proc,sys,tmp,run,root}
  cp "$here"/*.py "$folder/quire/h5-samples"
  cp "$here/../FORMAT.md" "$folder/quire"
  cp "$here/../target/release/libh5zquire.so" "$folder/quire"
  cp -r "$here/../.venv-measure/lib/python3"*/site-packages/hdf5plugin* "$folder/quire/peers"
  # Of hdf5plugin's filters, mpi.py takes SZ3 and ZFP.
  find "$folder/quire/peers" -name '*.so' ! -name '*sz3*' ! -name '*zfp*' -delete
  find "$folder/quire" -name '*.so' -exec strip {} +
  tar -C "$folder" -cJf "$archive" .
  rm -rf "$folder" "$files"
  ls -l "$archive"
}

run() {
  local archive="$1" results="$2" measured
  shift 2
  mkdir -p "$root" "$results"
  tar -C "$root" -xJf "$archive"
  # The driver's libraries are those of the machine.
  ldconfig -p | sed -n 's/.* => \(.*\/lib\(cuda\|nvidia-[a-z0-9]*\)\.so\.1\)$/\1/p' | xargs -I{} cp -L {} "$root/usr/lib/x86_64-linux-gnu"
  ! command -v nvidia-smi >/dev/null || cp "$(command -v nvidia-smi)" "$root/usr/bin"
  # The mounts end with this process.
  unshare --mount bash -euo pipefail -c '
    root="$1"; shift
    for folder in dev proc sys; do mount --rbind "/$folder" "$root/$folder"; done
    exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root HDF5_PLUGIN_PATH=/quire QUIRE_PEERS=/quire/peers OMP_NUM_THREADS=1 COMMAND="$1" "${@:2}"
  ' bash "$root" "h5-samples/mpi_device.sh run ARCHIVE FOLDER $*" /usr/bin/python3 /quire/h5-samples/mpi.py --results /tmp "$@"
  measured="$(python3 "$here/measured.py")"
  { echo "$measured"; tail -n +2 "$root/tmp/mpi.txt"; } > "$results/mpi.txt"
  { echo "# $measured"; tail -n +2 "$root/tmp/mpi.csv"; } > "$results/mpi.csv"
}

case "${1-}" in
  pack | run) "$@" ;;
  *) sed -n '2,6p' "$0" >&2; exit 2 ;;
esac
