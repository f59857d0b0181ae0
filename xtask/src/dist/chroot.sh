#!/bin/sh
# chroot.sh RELEASE ROOT PACKAGE PROGRAM: makes a Debian RELEASE in ROOT, and there installs PACKAGE, watches PROGRAM (static, with a race),
# upgrades it to itself in several ways, removes it, and installs and purges it. To be called as root in namespaces of its own for mounts and processes
# (unshare(1)), which take with them whatever is left. Fails where anything is not as it should be.
set -eu
release=$1 root=$2 package=$3 program=$4
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

fail() {
    echo "chroot.sh: $1" >&2
    exit 1
}
inside() { chroot "$root" "$@"; }
# All files, but for what dpkg, apt and ldconfig note of their own doings.
files() {
    inside find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path /var/cache -o -path /tmp \) -prune -o -printf '%p %m %u:%g %s\n' |
        sort
}

debootstrap --variant=minbase --include=libcap2-bin,man-db "$release" "$root" > "$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    fail "debootstrap fails; the whole log is $root.log"
}
rm "$root.log"
# man pages are left out of minimal systems by such a setting, where there is one.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/docker*
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
inside ldd --version | head -n 1
cp "$package" "$root/tmp/gwp-race.deb"
cp "$program" "$root/tmp/racy"
files > "$root.before"

program=/usr/bin/gwp-race
store=sqlite:/var/lib/gwp-race/races.db
# Whether the package's scripts have kept anything for each other that has no use any more.
nothing_kept() { [ ! -e "$root/var/lib/gwp-race.capabilities" ] || fail "capabilities are kept after $1"; }
stored() {
    inside gwp-race races list --store "$store" --format json | grep -q ".type.:.listed." || fail "the stored race is gone after $1"
}

inside apt-get install --yes /tmp/gwp-race.deb
inside gwp-race --version
for unit in gwp-race-fleet.service gwp-race-agent.service gwp-race-agent.socket; do
    [ -f "$root/usr/lib/systemd/system/$unit" ] || fail "there is no unit $unit"
    [ -z "$(inside find /etc/systemd -name $unit)" ] || fail "the unit $unit is enabled, which nobody has asked for"
done
inside gwp-race doctor || fail "doctor has found problems"
inside man --path gwp-race-run > /dev/null || fail "there is no manual page"
[ "$(inside stat -c '%a %U %G' /var/lib/gwp-race)" = "700 root root" ] || fail "the folder for stores is not root's alone"
inside gwp-race run --max-overhead 20% --output /tmp/report --store "$store" -- /tmp/racy 10 2
inside grep "WARNING: gwp-race: data race" /tmp/report || fail "no race was found"
stored "the run"
[ -z "$(inside getcap $program)" ] || fail "the file has capabilities that nobody has given it"

# The administrator's choice (README.Debian) outlasts an upgrade ...
capabilities=cap_bpf,cap_perfmon,cap_sys_ptrace,cap_kill,cap_checkpoint_restore+ep
inside dpkg-statoverride --update --add root daemon 750 $program
# Old versions of libcap do not know the names of new capabilities: those of the machine that builds are asked.
setcap "$capabilities" "$root$program"
before=$(inside getcap $program)
[ -n "$before" ] || fail "the file has got no capabilities"
has_kept_them() {
    after=$(inside getcap $program)
    [ "$before" = "$after" ] || fail "capabilities were '$before', and after $1 they are '$after'"
}
inside dpkg --install /tmp/gwp-race.deb
has_kept_them "an upgrade"
nothing_kept "an upgrade"
[ "$(inside stat -c '%a %G' $program)" = "750 daemon" ] || fail "group and mode have changed"
stored "an upgrade"
# ... one that is configured later, after a second one ...
inside dpkg --unpack /tmp/gwp-race.deb
inside dpkg --unpack /tmp/gwp-race.deb
inside dpkg --configure gwp-race
has_kept_them "two upgrades of which one was configured"
# ... and one that fails, of which nothing is left for the next.
inside dpkg-deb --raw-extract /tmp/gwp-race.deb /tmp/failing
echo "exit 1" >> "$root/tmp/failing/DEBIAN/preinst"
inside dpkg-deb --build /tmp/failing /tmp/failing.deb > /dev/null
! inside dpkg --install /tmp/failing.deb 2> /dev/null || fail "an upgrade has not failed that had to"
has_kept_them "an upgrade that failed"
nothing_kept "an upgrade that failed"
inside setcap -r $program
inside dpkg --install /tmp/gwp-race.deb
[ -z "$(inside getcap $program)" ] || fail "an upgrade brings back capabilities that were taken away"

# Without a purge a store stays, and rights go.
setcap "$capabilities" "$root$program"
inside dpkg --remove gwp-race
[ -e "$root/var/lib/gwp-race/races.db" ] || fail "a store has gone with the program"
inside dpkg --install /tmp/gwp-race.deb
[ -z "$(inside getcap $program)" ] || fail "a new file has the capabilities of one that was removed"
stored "removing and installing"

inside dpkg-statoverride --remove $program
inside dpkg --purge gwp-race
files > "$root.after"
diff "$root.before" "$root.after" || fail "these files have stayed behind or changed"
rm "$root.before" "$root.after"
echo "    installed, used, upgraded and removed; nothing is left"
