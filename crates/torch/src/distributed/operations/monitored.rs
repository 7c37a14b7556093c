//! A barrier that names the ranks that are missing.

use crate::distributed::group::{ProcessGroup, resolve};
use crate::distributed::work::Work;
use crate::error::Error;
use crate::launch::On;
use crate::rank::Rank;
use phalanx_sim::executor::Sim;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// The bits that tell channels of monitored barriers from others: messages have only the first.
const MONITORED: u32 = 1 << 29 | 1 << 25;

/// Waits until every rank of the group has called this. If a rank has not come within `timeout` of simulated time, the first
/// rank of the group fails with [`Error::Missing`], which names the missing ranks, and so do those that wait for it.
pub async fn monitored_barrier(
    cx: &Rank,
    timeout: Time,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    monitored_barrier_async(cx, timeout, group)?.wait().await
}

/// Does the same without waiting.
pub fn monitored_barrier_async(
    cx: &Rank,
    timeout: Time,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    let Some(rank) = group.rank() else { return Ok(Work::nothing()) };
    let sequence = group.next_sequence();
    group.join(sequence, format!("monitored_barrier #{sequence} of {}", group.describe()));
    let pe = |rank: usize| PeId::first(u32::try_from(rank).expect("a SIP"));
    let barrier = Rc::new(Barrier {
        rank,
        members: group.members().to_vec(),
        pes: group.members().iter().map(|member| pe(*member)).collect(),
        channel: MONITORED | (group.number() * 2),
        edge: EdgeSpec { n_slots: 1, slot_size: 16, ..cx.settings().ccl.edge() },
        timeout,
        sim: cx.host().sim().clone(),
        missing: RefCell::default(),
    });
    let on = On {
        pes: vec![barrier.pes[rank]],
        axes: None,
        exclusive: false,
        label: None,
        after: group.last().into_iter().collect(),
    };
    let (own, shared) = (group.clone(), barrier.clone());
    let handle = cx.launch_mapped(
        "monitored_barrier",
        on,
        &[],
        move |tl, _| barrier.clone().run(tl),
        move |result| {
            own.finish(sequence);
            let ranks = shared.missing.take();
            let timeout = shared.timeout;
            result.map_err(|error| {
                if ranks.is_empty() {
                    return error;
                }
                Error::Missing { operation: "monitored_barrier", ranks, timeout }
            })
        },
    );
    group.follow(&handle);
    Ok(Work::new(handle))
}

/// One rank's part.
struct Barrier {
    rank: usize,
    members: Vec<usize>,
    pes: Vec<PeId>,
    /// The channel of signs of life and of the end; the next one is for the news that somebody is missing.
    channel: u32,
    edge: EdgeSpec,
    timeout: Time,
    sim: Sim,
    missing: RefCell<Vec<usize>>,
}

impl Barrier {
    async fn run(self: Rc<Self>, tl: Tl) -> Result<(), KernelError> {
        if self.rank == 0 { self.lead(&tl).await } else { self.follow(&tl).await }
    }

    /// The first rank: takes a sign of life from everybody, and tells them the end.
    async fn lead(&self, tl: &Tl) -> Result<(), KernelError> {
        let deadline = tl.now() + self.timeout;
        let (mut missing, mut arrived): (Vec<usize>, Vec<usize>) =
            ((1..self.pes.len()).collect(), Vec::new());
        while !missing.is_empty() {
            let Some(index) = self.next_sign(tl, &missing, deadline).await? else { break };
            let member = missing.remove(index);
            let from = tl.receiver_on(self.pes[member], self.channel, self.edge)?;
            drop(tl.recv(&from, DType::F32, 1).await?);
            arrived.push(member);
        }
        let news = self.channel + u32::from(!missing.is_empty());
        for member in arrived {
            let to = tl.sender_on(self.pes[member], news, self.edge)?;
            tl.send(&to, &tl.zeros(DType::F32, 1)?).await;
        }
        if missing.is_empty() {
            return Ok(());
        }
        *self.missing.borrow_mut() = missing.iter().map(|member| self.members[*member]).collect();
        Err(KernelError::Other("ranks are missing".to_owned()))
    }

    /// Waits for a sign of life of one of `missing`, until `deadline`. The deadline does not keep a run alive.
    async fn next_sign(
        &self,
        tl: &Tl,
        missing: &[usize],
        deadline: Time,
    ) -> Result<Option<usize>, KernelError> {
        let from: Vec<_> = missing.iter().map(|member| (self.pes[*member], self.channel)).collect();
        let mut arrival = tl.arrival(&from, self.edge)?;
        let mut late = self.sim.doze_until(deadline);
        Ok(poll_fn(move |context| {
            if let Poll::Ready(index) = Pin::new(&mut arrival).poll(context) {
                return Poll::Ready(Some(index));
            }
            Pin::new(&mut late).poll(context).map(|()| None)
        })
        .await)
    }

    /// Any other rank: gives a sign of life, and waits for the news.
    async fn follow(&self, tl: &Tl) -> Result<(), KernelError> {
        let to = tl.sender_on(self.pes[0], self.channel, self.edge)?;
        tl.send(&to, &tl.zeros(DType::F32, 1)?).await;
        let news = [(self.pes[0], self.channel), (self.pes[0], self.channel + 1)];
        let index = tl.arrival(&news, self.edge)?.await;
        let from = tl.receiver_on(news[index].0, news[index].1, self.edge)?;
        drop(tl.recv(&from, DType::F32, 1).await?);
        match index {
            0 => Ok(()),
            _ => Err(KernelError::Other(format!(
                "rank {} gave up waiting for others after {}",
                self.members[0], self.timeout
            ))),
        }
    }
}
