//! The handle of a simulation for processes and devices.

use super::action::{Action, Key};
use super::agenda::Entry;
use super::state::State;
use super::task::{self, JoinHandle, Pause, Sleep, TaskId};
use super::{Device, DeviceId, Name, Partition, Wait};
use crate::time::Time;
use std::rc::Rc;

/// A handle of the simulation for a process or a device: it reads the time, waits and schedules.
#[derive(Clone)]
pub struct Sim(Rc<State>);

impl Sim {
    pub(super) fn new(state: State) -> Self {
        Self(Rc::new(state))
    }

    #[inline]
    pub(super) fn state(&self) -> &State {
        &self.0
    }

    pub(super) fn share(&self) -> Rc<State> {
        self.0.clone()
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&self) -> Time {
        Time::ps(self.0.clock.now.get())
    }

    /// Returns the partition that has its turn.
    #[inline]
    pub fn partition(&self) -> Partition {
        self.0.current.partition.get()
    }

    /// Returns the process that is running.
    #[inline]
    pub fn task(&self) -> TaskId {
        self.0.current.task.get()
    }

    /// Returns the number of events fired, without those of the current turn.
    pub fn events(&self) -> u64 {
        self.0.clock.events.get()
    }

    /// Ends the run after the current window; the next run continues.
    pub fn stop(&self) {
        self.0.run.is_stopped.set(true);
    }

    /// Ends the run after the current instant of the current partition; the next run continues. Partitions whose turn has
    /// passed are ahead by less than the lookahead, the others stop at the same instant (SIM-9).
    pub fn stop_here(&self) {
        let State { clock, run, .. } = &*self.0;
        self.stop();
        // Shards have one window: none of them can end it alone.
        if !run.is_running.get() || run.is_shared.get() {
            return;
        }
        let end = clock.now.get() + 1;
        let mut cuts = run.cuts.borrow_mut();
        if cuts.is_empty() {
            run.uncut_end.set(clock.window_end.get());
        }
        cuts.push((self.partition(), end));
        clock.window_end.set(end);
    }

    /// True while the simulation runs: a process or a device has its turn.
    pub(crate) fn is_running(&self) -> bool {
        self.0.run.is_running.get()
    }

    /// Registers a device and returns the number for scheduling its actions.
    pub(crate) fn register(&self, device: Rc<impl Device + 'static>) -> DeviceId {
        let registry = &self.0.registry;
        let id = registry.device_count.get();
        registry.device_count.set(id + 1);
        registry.new_devices.borrow_mut().push(Box::new(device));
        registry.has_changes.set(true);
        DeviceId(id)
    }

    /// Schedules an action of `device` in `partition`.
    ///
    /// # Panics
    ///
    /// If `time` is in the past, or within the lookahead for another partition (SIM-1, SIM-3): bugs of a model.
    #[inline]
    pub(crate) fn schedule(
        &self,
        time: Time,
        partition: Partition,
        device: DeviceId,
        payload: u64,
    ) {
        self.act_at(time, partition, Action::of(device, payload));
    }

    #[inline(never)]
    pub(super) fn act_at(&self, time: Time, partition: Partition, action: Action) {
        let state = &*self.0;
        let now = state.clock.now.get();
        if time == Time::MAX {
            return self.overflow();
        }
        if !state.run.is_running.get() {
            return self.prepare(time, partition, action);
        }
        let origin = state.current.partition.get();
        if time.as_ps() <= now {
            return self.act_now(time, partition, action);
        }
        assert!(
            partition == origin || time.as_ps() >= state.clock.window_end.get(),
            "SIM-3: {origin:?} acts on {partition:?} within the lookahead"
        );
        let agendas = &state.pending.agendas;
        let key = agendas.next_key(now, origin);
        agendas.push(partition, Entry { time: time.as_ps(), key, action });
    }

    /// Reserves the key of an event at `time` that may turn out to be unnecessary. [`Sim::schedule_as`] schedules the
    /// event as if it had been scheduled now.
    #[inline]
    pub(crate) fn reserve(&self, time: Time) -> Key {
        let State { clock, current, pending, .. } = &*self.0;
        clock.latest.set(clock.latest.get().max(time.as_ps()));
        pending.agendas.next_key(clock.now.get(), current.partition.get())
    }

    /// Reserves the key of an event whose time is not known yet.
    #[inline]
    pub(crate) fn reserve_key(&self) -> Key {
        let State { clock, current, pending, .. } = &*self.0;
        pending.agendas.next_key(clock.now.get(), current.partition.get())
    }

    /// Sets the alarm of the current partition: `device` is called before the events of that instant, and before time
    /// moves to that instant. [`Time::MAX`] for no alarm.
    #[inline]
    pub(crate) fn set_alarm(&self, time: Time, device: DeviceId) {
        self.0.registry.alarm_device.set(device.0);
        self.0.pending.agendas.set_alarm(self.partition(), time.as_ps());
    }

    /// Returns the last instant up to which nothing happens in the current partition that is not known yet: the time of
    /// the next event, or the end of the window.
    #[inline]
    pub(crate) fn quiet_until(&self) -> Time {
        let first = self.0.pending.agendas.of(self.partition()).first_event();
        Time::ps(first.min(self.0.clock.window_end.get() - 1))
    }

    /// True if `time` is in the current window.
    #[inline]
    pub(crate) fn is_in_window(&self, time: Time) -> bool {
        time.as_ps() < self.0.clock.window_end.get()
    }

    /// True if an event of the current partition at `time` with this key has fired, or would have.
    #[inline]
    pub(crate) fn has_passed(&self, time: Time, key: Key) -> bool {
        let now = self.now();
        time < now || (time == now && self.is_before_current(key))
    }

    /// True if an event of this instant with this key fires before the current one.
    fn is_before_current(&self, key: Key) -> bool {
        let State { current, run, .. } = &*self.0;
        let now = current.key.get();
        if run.watches_ties.get() && key.is_tied_with(now) {
            run.note_tie();
        }
        key < now
    }

    /// Schedules an action that has not passed, with the key that was reserved for it.
    #[inline(never)]
    pub(crate) fn schedule_as(
        &self,
        key: Key,
        time: Time,
        partition: Partition,
        device: DeviceId,
        payload: u64,
    ) {
        if time == Time::MAX {
            return self.overflow();
        }
        let action = Action::of(device, payload);
        let agendas = &self.0.pending.agendas;
        agendas.push(partition, Entry { time: time.as_ps(), key, action });
    }

    /// Requires that an event of another shard is not too late (SIM-3).
    pub(crate) fn check_arrival(&self, time: Time, partition: Partition) {
        assert!(
            time.as_ps() >= self.0.clock.window_end.get(),
            "SIM-3: another shard acts on {partition:?} within the lookahead"
        );
    }

    /// Resumes a process of the current partition at `time`, with the key that was reserved for it.
    pub(crate) fn resume_as(&self, key: Key, time: Time, task: TaskId) {
        if time == Time::MAX {
            return self.overflow();
        }
        let action = Action::resume(task.pack());
        let agendas = &self.0.pending.agendas;
        agendas.push(self.partition(), Entry { time: time.as_ps(), key, action });
    }

    /// Adds an action without delay.
    fn act_now(&self, time: Time, partition: Partition, action: Action) {
        let (now, origin) = (self.now(), self.partition());
        assert!(time == now, "SIM-1: {origin:?} acts at {time}, before {now}");
        assert!(partition == origin, "SIM-3: {origin:?} acts on {partition:?} without delay");
        self.0.pending.ready.push(action);
    }

    /// True if an action without delay that is added now is the next one to fire. Its cause may do the action itself, and
    /// then counts it ([`Sim::count_action`]).
    #[inline]
    pub(crate) fn is_next(&self) -> bool {
        let State { clock, current, pending, .. } = &*self.0;
        let agenda = pending.agendas.of(current.partition.get());
        pending.ready.is_empty() && agenda.first_event() > clock.now.get()
    }

    /// Counts an action that its cause has done itself as an event.
    #[inline]
    pub(crate) fn count_action(&self) {
        let events = &self.0.clock.events;
        events.set(events.get() + 1);
    }

    /// Ends the run: an event lies after [`Time::MAX`].
    #[cold]
    pub(crate) fn overflow(&self) {
        self.0.run.has_overflowed.set(true);
        self.stop();
    }

    /// True if the run ended because an event lies after [`Time::MAX`].
    pub(crate) fn has_overflowed(&self) -> bool {
        self.0.run.has_overflowed.get()
    }

    /// Adds an event before the run: it counts as created by its own partition.
    #[cold]
    fn prepare(&self, time: Time, partition: Partition, action: Action) {
        let State { clock, pending, .. } = &*self.0;
        let time = self.0.settled_after(time.as_ps(), partition);
        let agendas = &pending.agendas;
        let key = agendas.next_key(clock.now.get(), partition);
        agendas.push(partition, Entry { time, key, action });
    }

    /// Resumes a process of the current partition after the actions that are already due.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        debug_assert!(
            !self.0.run.is_running.get() || self.is_here(task),
            "SIM-3: {:?} wakes a process of another partition",
            self.partition()
        );
        self.0.pending.ready.push(Action::resume(task.pack()));
    }

    /// True if a process runs in the current partition, or has ended.
    fn is_here(&self, task: TaskId) -> bool {
        let partition = self.0.registry.tasks.borrow().partition_of(task);
        partition.is_none_or(|partition| partition == self.partition())
    }

    /// Resumes the running process at `time`.
    #[inline]
    pub(crate) fn resume_at(&self, time: Time) {
        let State { clock, current, run, pending, .. } = &*self.0;
        let (now, partition) = (clock.now.get(), current.partition.get());
        let action = Action::resume(current.task.get().pack());
        if time.as_ps() <= now || time == Time::MAX || !run.is_running.get() {
            return self.act_at(time, partition, action);
        }
        let agenda = pending.agendas.of(partition);
        let key = agenda.next_key(now, partition);
        agenda.push(Entry { time: time.as_ps(), key, action });
    }

    /// Waits for `span` of simulated time.
    pub fn sleep(&self, span: Time) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Waits until `deadline`; returns at once if `deadline` has passed.
    pub(crate) fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep::new(self.clone(), deadline)
    }

    /// Waits until another event has fired (SIM-7). `describe` names the polled condition for a deadlock report.
    pub fn pause<D: Fn() -> Wait>(&self, describe: D) -> Pause<D> {
        Pause::new(self.clone(), describe)
    }

    /// Starts a process in the current partition.
    pub fn spawn<T: 'static>(
        &self,
        name: impl Into<Name>,
        process: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        task::spawn(self, self.partition(), name.into(), process)
    }

    /// Starts a process in `partition`, which is the current one during a run.
    pub(crate) fn spawn_in<T: 'static>(
        &self,
        partition: Partition,
        name: impl Into<Name>,
        process: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        task::spawn(self, partition, name.into(), process)
    }

    /// Records the condition a pending future waits for, if a deadlock or a question collects descriptions. Every
    /// future calls this before it returns `Poll::Pending`.
    #[inline]
    pub fn waiting(&self, describe: impl FnOnce() -> Wait) {
        let inquiry = &self.0.inquiry;
        // The cheap test comes first: during a run it is nearly always true.
        if inquiry.is_quiet.get() {
            return;
        }
        if let Some(waits) = &mut *inquiry.waits.borrow_mut() {
            waits.push(describe());
        }
    }

    /// Returns the name of a process, for messages.
    pub(crate) fn name_of(&self, task: TaskId) -> Option<String> {
        self.0.registry.tasks.borrow().name_of(task)
    }
}
