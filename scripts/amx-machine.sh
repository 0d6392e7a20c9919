#!/usr/bin/env bash
# amx-machine.sh PROGRAM TRAPPED: run the static PROGRAM as the only process of an emulated machine that has AMX, and
# compare its checksum with that of TRAPPED, the same program under the emulator of tests/support/amx_trap.h.
#
# The machine: Bochs 3.0 with our patch, the processor model sapphire_rapids, Debian's cloud kernel. Made once, kept in
# ~/.cache/pilotfish/amx-machine, with apt: the source of Bochs, the kernel. `./dev amx-machine` installs the packages.
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
here=$(cd "$(dirname "$0")" && pwd)
program=$(readlink -f "$1") trapped=$(readlink -f "$2")
patch=$here/../tests/amx-machine/bochs-3.0-amx.patch
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pilotfish/amx-machine
bochs=$cache/bochs-$(sha256sum "$patch" | cut -c1-12)
source_name=bochs_3.0+dfsg.orig.tar.xz
source_sha256=78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b
limit=300 # seconds that the machine may run

say() { echo "amx-machine: $*" >&2; }
die() {
    say "$*"
    exit 1
}

# apt's own commands as an ordinary user may run them, or root without its sandbox.
apt_get() { apt-get -qq -o APT::Sandbox::User=root "$@"; }

debian_mirror() { apt-get indextargets --format '$(LABEL) $(REPO_URI)' | awk '$1 == "Debian" { print $2; exit }'; }

# The source package of Debian trixie, from the mirror that this system uses, with lists of its own.
fetch_source() {
    local mirror
    mirror=$(debian_mirror)
    mkdir -p apt/lists/partial apt/cache/archives/partial
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >apt/trixie.list
    local own=(-o "Dir::Etc::sourcelist=$PWD/apt/trixie.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache")
    apt_get "${own[@]}" update
    apt_get "${own[@]}" source --download-only bochs=3.0+dfsg-1 || true # a mirror may lack the .dsc: the tarball counts
    echo "$source_sha256  $source_name" | sha256sum --check --quiet
}

build_bochs() {
    [ -n "$(debian_mirror)" ] || die "no Debian mirror among apt's sources, and Bochs and the kernel come from one"
    say "building Bochs, once (about a minute on two cores)"
    rm -rf "$cache/build"
    mkdir -p "$cache/build"
    cd "$cache/build"
    fetch_source >fetch.log 2>&1 || die "no source of Bochs: see $PWD/fetch.log"
    tar xf "$source_name"
    cd bochs-3.0
    patch -s -p1 <"$patch"
    CFLAGS=-O2 CXXFLAGS=-O2 ./configure --enable-cpu-level=6 --enable-x86-64 --enable-fpu --enable-avx --enable-evex \
        --enable-amx --enable-cet --enable-protection-keys --enable-uintr --enable-memtype --enable-all-optimizations \
        --enable-pci --enable-cdrom --disable-docbook --disable-debugger --disable-debugger-gui \
        --with-nogui --without-x11 --without-wx --without-sdl2 --without-term --without-rfb >configure.log 2>&1 ||
        die "Bochs does not configure: see $PWD/configure.log"
    make -j"${JOBS:-$(nproc)}" bochs >make.log 2>&1 || die "Bochs does not build: see $PWD/make.log"
    strip bochs
    cp bochs "$bochs.part" && mv "$bochs.part" "$bochs"
    cd "$cache"
    rm -rf build
}

fetch_kernel() {
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
    [ -n "$package" ] || die "apt knows no linux-image-cloud-amd64"
    rm -rf "$cache/kernel"
    mkdir -p "$cache/kernel"
    cd "$cache/kernel"
    apt_get download "$package"
    dpkg -x "$package"_*.deb unpacked
    cp unpacked/boot/vmlinuz-* "$cache/vmlinuz.part" && mv "$cache/vmlinuz.part" "$cache/vmlinuz"
    cd "$cache"
    rm -rf kernel
}

# A bootable disc in the current folder.
make_disc() {
    "$here/make-initramfs.py" initrd.img "init=$program"
    mkdir -p disc/isolinux
    cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 disc/isolinux/
    cp "$cache/vmlinuz" initrd.img disc/
    cat >disc/isolinux/isolinux.cfg <<'CONFIG'
SERIAL 0 115200
DEFAULT test
PROMPT 0
TIMEOUT 1
LABEL test
  KERNEL /vmlinuz
  INITRD /initrd.img
  APPEND console=ttyS0,115200 panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable random.trust_cpu=on audit=0 no5lvl clearcpuid=fsrm,erms quiet
CONFIG
    xorriso -as mkisofs -quiet -o disc.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table disc 2>xorriso.log || die "no disc: $(cat xorriso.log)"
    cat >bochsrc <<'CONFIG'
config_interface: textconfig
display_library: nogui
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: model=sapphire_rapids, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=512, host=512
clock: sync=none, time0=utc
boot: cdrom
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=disc.iso, status=inserted
com1: enabled=1, mode=file, dev=serial.txt
log: bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
CONFIG
}

checksum_of() { sed -n 's/^amx: .* checksum \([0-9a-f]*\)$/\1/p' "$1"; }

mkdir -p "$cache"
[ -x "$bochs" ] || (build_bochs)
[ -f "$cache/vmlinuz" ] || (fetch_kernel)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
make_disc
begin=$(date +%s)
# The program ends the machine by a port that Bochs takes for a panic: it always exits with 1. A kernel that panics would
# start again and again.
timeout "$limit" "$bochs" -q -f bochsrc </dev/null >bochs.txt 2>&1 &
while kill -0 $! 2>/dev/null; do
    ! grep -qas 'Kernel panic' serial.txt || kill $! 2>/dev/null || true
    sleep 0.2
done
wait $! || true
touch serial.txt
tr -d '\r' <serial.txt | grep -a '^amx: ' | tee machine.txt || true
sed -n 's/^AMX instructions: /amx: the machine ran this many AMX instructions: /p' bochs.txt
say "the machine ran $(($(date +%s) - begin)) s"
grep -qx 'amx: passed' machine.txt || { tail -n 20 serial.txt bochs.txt >&2; die "no verdict, or a bad one"; }
status=0
"$trapped" >trapped.txt || status=$?
if [ "$status" = 77 ]; then
    echo "amx: passed; under the trap it needs AVX-512 with BF16 and VNNI, which this processor lacks: no checksum to compare"
    exit 0
fi
[ "$status" = 0 ] || { cat trapped.txt >&2; die "the same program fails under the trap"; }
[ -n "$(checksum_of machine.txt)" ] && [ "$(checksum_of machine.txt)" = "$(checksum_of trapped.txt)" ] ||
    die "checksums differ: $(checksum_of machine.txt) in the machine, $(checksum_of trapped.txt) under the trap"
echo "amx: passed, and the trap's checksum is the same"
