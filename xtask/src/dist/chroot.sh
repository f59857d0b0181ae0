#!/bin/sh
# chroot.sh RELEASE ROOT PACKAGE PROGRAM: makes a Debian RELEASE in ROOT, and there installs PACKAGE, watches PROGRAM (static, with a race),
# installs it again as an upgrade does, and removes it. To be called as root in namespaces of its own for mounts and processes
# (unshare(1)), which take with them whatever is left. Fails where anything is not as it should be.
set -eu
release=$1 root=$2 package=$3 program=$4
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

fail() {
    echo "chroot.sh: $1" >&2
    exit 1
}
inside() { chroot "$root" "$@"; }
# All files, but for what dpkg and ldconfig note of their own doings.
files() {
    inside find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /tmp \) -prune -o -printf '%p %m %u:%g %s\n' |
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

inside dpkg --install /tmp/gwp-race.deb
inside gwp-race --version
inside gwp-race doctor || fail "doctor has found problems"
inside man --path gwp-race-run > /dev/null || fail "there is no manual page"
inside gwp-race run --max-overhead 20% --output /tmp/report -- /tmp/racy 10 2
inside grep "WARNING: gwp-race: data race" /tmp/report || fail "no race was found"
[ -z "$(inside getcap /usr/bin/gwp-race)" ] || fail "the file has capabilities that nobody has given it"

# The administrator's choice (README.Debian) outlasts an upgrade.
capabilities=cap_bpf,cap_perfmon,cap_sys_ptrace,cap_kill,cap_checkpoint_restore+ep
inside dpkg-statoverride --update --add root daemon 750 /usr/bin/gwp-race
# Old versions of libcap do not know the names of new capabilities: those of the machine that builds are asked.
setcap "$capabilities" "$root/usr/bin/gwp-race"
before=$(inside getcap /usr/bin/gwp-race)
[ -n "$before" ] || fail "the file has got no capabilities"
inside dpkg --install /tmp/gwp-race.deb
after=$(inside getcap /usr/bin/gwp-race)
[ "$before" = "$after" ] || fail "capabilities were '$before', and after an upgrade they are '$after'"
[ "$(inside stat -c '%a %G' /usr/bin/gwp-race)" = "750 daemon" ] || fail "group and mode have changed"
inside dpkg-statoverride --remove /usr/bin/gwp-race

inside dpkg --purge gwp-race
files > "$root.after"
diff "$root.before" "$root.after" || fail "these files have stayed behind or changed"
rm "$root.before" "$root.after"
echo "    installed, used, upgraded and removed; nothing is left"
