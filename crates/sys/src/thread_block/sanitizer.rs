//! Whether the program is built with a sanitizer that knows each thread by its stack and its thread-local variables.
//!
//! What each of them begins with is looked up where the program is linked, by a reference that may remain open: the linkers of Rust's programs do not tell the dynamic linker of
//! what lies in the program itself, so that one cannot be asked.

/// Reads an address from the table of addresses, in which there is a zero for what is not there.
#[cfg(target_arch = "x86_64")]
macro_rules! read_address {
    ($name:literal) => {
        concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]")
    };
}

/// Reads an address from the table of addresses, in which there is a zero for what is not there.
#[cfg(target_arch = "aarch64")]
macro_rules! read_address {
    ($name:literal) => {
        concat!("adrp {0}, :got:", $name, "\n", "ldr {0}, [{0}, :got_lo12:", $name, "]")
    };
}

macro_rules! is_linked {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: it only reads that table.
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                read_address!($name),
                out(reg) address,
                options(nostack, readonly, preserves_flags),
            );
        }
        address != 0
    }};
}

/// Its name, if there is one.
pub(super) fn name() -> Option<&'static str> {
    let all = [
        (is_linked!("__asan_init"), "address"),
        (is_linked!("__tsan_init"), "thread"),
        (is_linked!("__msan_init"), "memory"),
    ];
    all.into_iter().find_map(|(is_linked, name)| is_linked.then_some(name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_linked_is_seen_and_what_is_not_is_not() {
        assert!(is_linked!("pthread_create"));
        assert!(!is_linked!("rowlock_is_no_such_function"));
    }
}
