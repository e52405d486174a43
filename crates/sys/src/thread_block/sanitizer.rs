//! Detects sanitizers, which identify each thread by its stack and thread-local variables.
//!
//! The initial function of each sanitizer is looked up by a weak reference at link time. The
//! dynamic linker cannot be asked, since Rust programs do not export their own symbols.

/// Reads an address from the global offset table, which holds zero for undefined symbols.
#[cfg(target_arch = "x86_64")]
macro_rules! read_address {
    ($name:literal) => {
        concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]")
    };
}

/// Reads an address from the global offset table, which holds zero for undefined symbols.
#[cfg(target_arch = "aarch64")]
macro_rules! read_address {
    ($name:literal) => {
        concat!("adrp {0}, :got:", $name, "\n", "ldr {0}, [{0}, :got_lo12:", $name, "]")
    };
}

macro_rules! is_linked {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: it only reads the table.
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

/// The name of the sanitizer, if there is one.
pub(crate) fn name() -> Option<&'static str> {
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
    fn only_linked_symbols_are_found() {
        assert!(is_linked!("pthread_create"));
        assert!(!is_linked!("rowlock_is_no_such_function"));
    }
}
