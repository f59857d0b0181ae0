//! Functions of C libraries that write what they return into memory of their own, which the next call overwrites, or that change
//! variables which the library offers: those that POSIX.1-2024 (2.9.1, "Thread-Safety") exempts from being safe to call from several threads, and
//! that write what their callers read themselves.

/// In the order of their names.
const NAMES: [&str; 64] = [
    "asctime",
    "clearenv",
    "crypt",
    "ctermid",
    "ctime",
    "cuserid",
    "ecvt",
    "ether_ntoa",
    "fcvt",
    "fgetgrent",
    "fgetpwent",
    "fgetspent",
    "getaliasbyname",
    "getdate",
    "getfsent",
    "getfsfile",
    "getfsspec",
    "getgrent",
    "getgrgid",
    "getgrnam",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname2",
    "gethostent",
    "getlogin",
    "getmntent",
    "getnetbyaddr",
    "getnetbyname",
    "getnetent",
    "getprotobyname",
    "getprotobynumber",
    "getprotoent",
    "getpwent",
    "getpwnam",
    "getpwuid",
    "getrpcbyname",
    "getrpcbynumber",
    "getrpcent",
    "getservbyname",
    "getservbyport",
    "getservent",
    "getspent",
    "getspnam",
    "getttyent",
    "getttynam",
    "getutent",
    "getutid",
    "getutline",
    "gmtime",
    "inet_ntoa",
    "l64a",
    "localeconv",
    "localtime",
    "mktime",
    "ptsname",
    "putenv",
    "qecvt",
    "setenv",
    "strerror",
    "strsignal",
    "tmpnam",
    "ttyname",
    "tzset",
    "unsetenv",
];

/// Whether a function of this name is one of those.
#[must_use]
pub fn writes_results(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each name is found, and that those are not which take a buffer of their caller's.
    #[test]
    fn names() {
        assert!(NAMES.iter().all(|name| writes_results(name)));
        for other in ["localtime_r", "strerror_r", "time", "", "zzz", "memcpy"] {
            assert!(!writes_results(other), "{other}");
        }
    }
}
