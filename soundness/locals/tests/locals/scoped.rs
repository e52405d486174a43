//! `scoped-tls`: a thread-local reference for the duration of a call.

use ways::{switch, together};

scoped_tls::scoped_thread_local!(static KEY: String);

fn a_value_is_seen_only_inside_and_only_by_its_strand() -> Vec<(String, String, bool)> {
    together(3, |who| {
        let mine = format!("strand {who} ").repeat(who + 1);
        let seen = KEY.set(&mine, || {
            switch();
            let first = KEY.with(|text| {
                switch();
                text.clone()
            });
            switch();
            (first, KEY.with(String::clone))
        });
        drop(mine);
        switch();
        (seen.0, seen.1, KEY.is_set())
    })
}

fn inner_values_hide_outer_ones() -> Vec<[String; 3]> {
    together(3, |who| {
        let [outer, inner] = ["outer", "inner"].map(|text| format!("{text} {who}"));
        let see = || {
            switch();
            KEY.with(String::clone)
        };
        KEY.set(&outer, || [see(), KEY.set(&inner, see), see()])
    })
}

fn a_strand_that_leaves_by_a_panic_leaves_no_value() -> Vec<bool> {
    together(3, |who| {
        let mine = who.to_string();
        let _ = std::panic::catch_unwind(|| {
            KEY.set(&mine, || {
                switch();
                std::panic::resume_unwind(Box::new(()));
            })
        });
        switch();
        KEY.is_set()
    })
}

ways::in_every_way! {
    a_value_is_seen_only_inside_and_only_by_its_strand
    inner_values_hide_outer_ones
    a_strand_that_leaves_by_a_panic_leaves_no_value
}
