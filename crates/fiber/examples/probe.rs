//! probe
use rowlock_fiber as fiber;
use std::time::Instant;
static L: fiber::Mutex<u64> = fiber::Mutex::new(0);
static T: fiber::Mutex<bool> = fiber::Mutex::new(false);
static C: fiber::Condvar = fiber::Condvar::new();
static AB: [fiber::Mutex<[u64; 16]>; 2] = [const { fiber::Mutex::new([0; 16]) }; 2];
fn best(name: &str, per: usize, samples: usize, mut f: impl FnMut()) {
    let mut v: Vec<f64> = (0..samples)
        .map(|_| {
            let t = Instant::now();
            f();
            t.elapsed().as_nanos() as f64 / per as f64
        })
        .collect();
    v.sort_by(f64::total_cmp);
    println!("{name:14} min {:8.2}  p10 {:8.2}  p50 {:8.2}", v[0], v[samples / 10], v[samples / 2]);
}
fn study(n: usize) {
    let mut hs: Vec<Option<fiber::JoinHandle<()>>> = Vec::with_capacity(n);
    for i in 0..n {
        let pred = if i % 16 == 15 { hs[i - 1].take() } else { None };
        hs.push(Some(fiber::spawn(move || {
            AB[i % 2].lock().unwrap().iter_mut().for_each(|w| *w += i as u64);
            if let Some(p) = pred {
                p.join().unwrap();
            }
        })));
    }
    for h in hs.into_iter().flatten() {
        h.join().unwrap();
    }
}
fn main() {
    let only = std::env::args().nth(1);
    let want = |n: &str| only.as_deref().is_none_or(|o| o == n);
    let reps: usize = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(3000);
    fiber::Runtime::new(fiber::Config {
        rules: policy::feedback::Rules {
            levels: std::env::var("LEVELS").map_or(1, |l| l.parse().unwrap()),
            ..Default::default()
        },
        ..Default::default()
    })
    .run(|| {
        let n = 500;
        if want("create") {
            best("create-join", n, reps, || {
                for _ in 0..n {
                    fiber::spawn(|| ()).join().unwrap()
                }
            });
        }
        if want("many") {
            best("create-many", n, reps, || {
                let hs: Vec<_> = (0..n).map(|_| fiber::spawn(|| ())).collect();
                for h in hs {
                    h.join().unwrap()
                }
            });
        }
        if want("lock") {
            best("lock", n, reps, || {
                for _ in 0..n {
                    *L.lock().unwrap() += 1
                }
            });
        }
        if want("yield") {
            let h = fiber::spawn(move || {
                for _ in 0..n * reps {
                    fiber::yield_now()
                }
            });
            best("yield", 2 * n, reps, || {
                for _ in 0..n {
                    fiber::yield_now()
                }
            });
            h.join().unwrap();
        }
        if want("cond") {
            let turns = |me: bool, k: usize| {
                let mut t = T.lock().unwrap();
                for _ in 0..k {
                    while *t != me {
                        t = C.wait(t).unwrap()
                    }
                    *t = !me;
                    C.notify_one();
                }
            };
            let h = fiber::spawn(move || turns(true, n * reps));
            best("condvar", 2 * n, reps, || turns(false, n));
            h.join().unwrap();
        }
        if want("point") {
            best("point", n, reps, || {
                for _ in 0..n {
                    fiber::checkpoint()
                }
            });
        }
        if want("big") {
            best("study100k", 100000, reps / 100, || study(100000));
        }
        if want("study") {
            best("study2000", 2000, reps / 10, || study(2000));
            best("study10k", 10000, 20, || study(10000));
            best("study100k", 100000, 5, || study(100000));
        }
    })
    .unwrap();
}
