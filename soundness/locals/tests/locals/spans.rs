//! `tracing`: the subscriber and the spans in which a thread is.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{set_default, with_default};
use tracing::{Event, Metadata, Subscriber, info, info_span};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use ways::{switch, together};

/// Keeps the number `who` of each event and span, and switches in the middle of each call.
#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<Vec<u64>>>, Arc<AtomicU64>);

struct Number(Option<u64>);

impl Visit for Number {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0 = Some(value);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl Keeps {
    fn keep(&self, value: Number) {
        switch();
        self.0.lock().unwrap().extend(value.0);
        switch();
    }
}

impl Subscriber for Keeps {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut number = Number(None);
        span.record(&mut number);
        self.keep(number);
        Id::from_u64(1 + self.1.fetch_add(1, Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut number = Number(None);
        event.record(&mut number);
        self.keep(number);
    }

    fn enter(&self, _: &Id) {
        switch();
    }

    fn exit(&self, _: &Id) {
        switch();
    }
}

fn a_subscriber_hears_only_its_strand() -> Vec<Vec<u64>> {
    together(3, |who| {
        let (who, keeps) = (who as u64, Keeps::default());
        with_default(keeps.clone(), || {
            for _ in 0..3 {
                switch();
                info!(who);
                info_span!("span", who).in_scope(|| {
                    switch();
                    info!(who);
                });
            }
        });
        info!(who = 77_u64);
        keeps.0.lock().unwrap().clone()
    })
}

fn guards_of_subscribers_may_overlap_in_strands() -> Vec<Vec<u64>> {
    together(3, |who| {
        let (keeps, inner) = (Keeps::default(), Keeps::default());
        let guard = set_default(keeps.clone());
        switch();
        let other = set_default(inner.clone());
        info!(who = who as u64);
        switch();
        drop(other);
        switch();
        info!(who = 10 + who as u64);
        drop(guard);
        let inner = inner.0.lock().unwrap();
        keeps.0.lock().unwrap().iter().chain(inner.iter()).copied().collect()
    })
}

/// Keeps the names of the spans in which events come, by the number of the event.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<BTreeMap<u64, Vec<String>>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Places {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut number = Number(None);
        event.record(&mut number);
        switch();
        let names = context.event_scope(event).into_iter().flatten().map(|span| span.name().to_owned()).collect();
        switch();
        self.0.lock().unwrap().insert(number.0.unwrap(), names);
    }
}

/// The registry keeps the stack of spans of each thread in a `ThreadLocal`, and spans in shards of
/// threads.
fn an_event_is_in_the_spans_of_its_strand() -> BTreeMap<u64, Vec<String>> {
    let places = Places::default();
    let registry = Arc::new(Registry::default().with(places.clone()));
    together(3, |who| {
        with_default(Arc::clone(&registry), || {
            for round in 0..4 {
                let outer = match who {
                    0 => info_span!("zero"),
                    1 => info_span!("one"),
                    _ => info_span!("two"),
                };
                let entered = outer.enter();
                switch();
                info_span!("inner").in_scope(|| {
                    switch();
                    info!(who = who as u64 * 10 + round);
                });
                switch();
                drop(entered);
                switch();
            }
        });
    });
    let places = places.0.lock().unwrap();
    places.clone()
}

ways::in_every_way! {
    a_subscriber_hears_only_its_strand
    guards_of_subscribers_may_overlap_in_strands
    an_event_is_in_the_spans_of_its_strand
}
