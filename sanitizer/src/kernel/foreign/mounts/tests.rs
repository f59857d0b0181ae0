//! Lines of mountinfo, and what can be expected of the file systems that they tell of.

use super::*;

/// Check lines of the kernel's documentation and of real systems.
#[test]
fn lines() {
    let mount = Mount::parse(
        "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:3 - ext3 /dev/root rw,errors=continue",
    );
    let expected = Mount {
        id: 36,
        device: makedev(98, 0),
        point: "/mnt 2".into(),
        kind: "ext3".to_owned(),
        server: None,
        layers: Vec::new(),
    };
    assert_eq!(mount, Some(expected));
    for broken in ["", "36", "36 35 98 /", "36 35 98:0 / / rw -"] {
        assert_eq!(Mount::parse(broken), None, "{broken}");
    }
}

/// Check that what is on a block device is taken for served where a process serves that, and for files elsewhere.
#[test]
fn devices_that_are_served() {
    let file = tempfile::tempfile().expect("a file");
    let on = |device, mount| {
        let mut about = About::of(&file).expect("it is open");
        (about.device, about.mount) = (device, mount);
        about
    };
    let (served, usual) = (makedev(77, 1), makedev(77, 2));
    let line = |text| Mount::parse(text).expect("a line");
    let mut mounts = Mounts {
        id: None,
        ours: Some(vec![
            line("5 1 77:1 / /mnt rw - fuseblk /dev/sdx1 rw,user_id=0,group_id=0"),
            line("6 1 77:2 / /other rw - ext4 /dev/sdx2 rw"),
        ]),
        theirs: Some(Vec::new()),
    };
    let mut kind_of = |about| mounts.kind_of(&about).expect("they were read");
    let is_trusted = true;
    assert_eq!(kind_of(on(served, 5)), Kind::Served { is_trusted });
    let hidden = Kind::Served { is_trusted: false };
    assert_eq!(kind_of(on(served, 7)), hidden);
    assert_eq!(kind_of(on(usual, 6)), Kind::Files);
    assert_eq!(kind_of(on(usual, 7)), Kind::Files);
}

/// Check which file systems are asked: whose files the kernel answers for, and those that root or the user serves where this
/// process is.
#[test]
fn kinds() {
    let own = geteuid().as_raw();
    let kind = |kind: &str, options: &str, is_ours| {
        let line = format!("5 1 0:7 / /mnt rw shared:1 - {kind} source {options}");
        Mount::parse(&line)
            .expect("a line")
            .kind_among(&[], is_ours)
    };
    let served = |is_trusted| Kind::Served { is_trusted };
    assert_eq!(kind("overlay", "rw,lowerdir=/a:/b", false), Kind::Files);
    assert_eq!(kind("tmpfs", "rw", false), Kind::Files);
    assert_eq!(kind("nfs4", "rw", true), Kind::Remote("nfs4".into()));
    let options = |user: u32| format!("rw,user_id={user},group_id=0,allow_other");
    assert_eq!(kind("fuse", &options(0), true), served(true));
    assert_eq!(kind("fuse.sshfs", &options(own), true), served(true));
    assert_eq!(kind("fuse.sshfs", &options(own + 77), true), served(false));
    assert_eq!(kind("fuse", "rw", true), served(false));
    // Who is root there need not be root here.
    assert_eq!(kind("fuse", &options(0), false), served(false));
    for interface in [
        "proc", "sysfs", "devtmpfs", "devpts", "tracefs", "bpf", "fusectl",
    ] {
        assert_eq!(kind(interface, "rw", true), Kind::Other(interface.into()));
    }
}

/// Check that an overlay is what the worst of its layers is, wherever these are named; that those which another process sees are not trusted, unless they are ours; and that a layer
/// in a place beside one that is served is not taken for that.
#[test]
fn overlays_are_what_their_layers_are() {
    let own = geteuid().as_raw();
    let mounts = |overlay: &str| -> Vec<Mount> {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw".to_owned(),
            format!("2 1 0:40 / /snap/12/fs rw - fuse.raw raw rw,user_id={own}"),
            format!("3 1 0:41 / /theirs rw - fuse x rw,user_id={}", own + 77),
            "4 1 0:42 / /far\\040away rw - nfs4 host:/ rw".to_owned(),
            "5 1 0:43 / /lower rw - overlay overlay ro,lowerdir=/snap/12/fs/a:/usr".to_owned(),
            format!("6 1 0:44 / /merged rw - overlay overlay rw,{overlay}"),
        ];
        let parsed = lines.iter().map(|line| Mount::parse(line).expect("a line"));
        parsed.collect()
    };
    let file = tempfile::tempfile().expect("a file");
    let mut about = About::of(&file).expect("it is open");
    about.device = makedev(0, 44);
    let mut kind = |overlay: &str, mount, are_ours: bool| {
        about.mount = mount;
        let (here, there) = (mounts(overlay), mounts(overlay));
        let mut mounts = Mounts {
            id: None,
            ours: Some(if are_ours { here } else { Vec::new() }),
            theirs: Some(there),
        };
        mounts.kind_of(&about).expect("they were read")
    };
    let served = |is_trusted| Kind::Served { is_trusted };
    for (overlay, expected) in [
        ("lowerdir=/a:/b,upperdir=/snap/12/up", Kind::Files),
        ("lowerdir=/a:/snap/12/fs", served(true)),
        ("lowerdir=/a,upperdir=/snap/12/fs/up", served(true)),
        ("lowerdir+=/a,lowerdir+=/theirs", served(false)),
        ("lowerdir=/theirs/a:/snap/12/fs", served(false)),
        ("lowerdir=11/fs:12/fs", served(true)),
        ("lowerdir=11/fs:13/fs", Kind::Files),
        ("lowerdir=/far\\040away/a:/a", Kind::Remote("nfs4".into())),
        ("lowerdir=/lower/a", served(true)),
        ("lowerdir=/theirs2:/snap/12", Kind::Files),
    ] {
        assert_eq!(kind(overlay, 6, true), expected, "{overlay}");
        // Through another mount of it, in a container.
        let is_served = matches!(expected, Kind::Served { .. });
        let untrusted = if is_served { served(false) } else { expected };
        assert_eq!(kind(overlay, 6, false), untrusted, "{overlay}");
    }
    // It was mounted here, too.
    let theirs = mounts("lowerdir=/snap/12/fs");
    let ours = mounts("lowerdir=/snap/12/fs").into_iter();
    let ours = ours.map(|mount| Mount {
        id: mount.id + 100,
        ..mount
    });
    let mut both = Mounts {
        id: None,
        ours: Some(ours.collect()),
        theirs: Some(theirs),
    };
    assert_eq!(both.kind_of(&about).expect("they were read"), served(true));
}
