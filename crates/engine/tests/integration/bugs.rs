//! Bug classes that no other module is about.

use crate::support::Bench;

/// One owner: the engine can be handed to another thread, but what could be shared is only what `&Engine` can do, and that
/// changes nothing.
#[test]
fn b_04_only_one_owner_changes_the_maps() {
    fn is_send<T: Send>(_: &T) {}
    let mut bench = Bench::new(1);
    is_send(&bench.engine);
    let run = bench.begin();
    let task = bench.task(run, 1, &[]);
    let before = bench.engine.stats();
    let _ = (
        bench.engine.why(task),
        bench.engine.graph(run),
        bench.engine.outcome(run),
        bench.engine.error(run),
    );
    assert_eq!(bench.engine.stats(), before, "reading changes nothing");
}
