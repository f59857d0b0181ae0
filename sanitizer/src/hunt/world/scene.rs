//! What a planner decides is done here, in whatever program, and it is told what came of it: in the order in which the engine does.

use std::{sync::Arc, time::Duration};

use crate::hunt::plan::{
    Planner,
    action::{Action, Candidate, Deed, Then},
    event::{AddressId, Event, SiteFacts, SiteId, VariableId, What},
    purse::Purse,
};

/// A program in which it is hunted, and the machine on which that is done.
pub(super) trait Scene {
    /// A thread that stands at a site.
    type Standing: Copy;

    /// The time, s.
    fn now(&self) -> f64;
    /// Nothing is left to be found, or no time.
    fn is_over(&self) -> bool;
    /// What may be spent.
    fn purse(&mut self) -> Purse;
    /// What was spent in all, s.
    fn spent_s(&self) -> f64;
    /// What its code tells.
    fn code(&self) -> Arc<[SiteFacts]>;
    /// What can be done in it besides.
    fn offers(&self) -> Vec<What> {
        Vec::new()
    }
    /// What is seen meanwhile without anybody's being stopped.
    fn happens(&mut self) -> Vec<What>;

    /// Waits at a site: who comes and how long that took, or what else came of it.
    fn wait(
        &mut self,
        site: SiteId,
        at_most: f64,
        wanted: Option<AddressId>,
    ) -> Result<(Self::Standing, Duration), Option<What>>;
    /// Waits for a sample: whom it stops, or that it does not.
    fn sample(&mut self, at_most: f64) -> Result<Self::Standing, What>;
    /// Waits for whoever comes to a site at which a probe stands, but for these.
    fn arrival(&mut self, _but: &[SiteId], at_most: f64) -> Result<Self::Standing, What> {
        self.rest(at_most);
        Err(What::NoSample {
            waited: Duration::from_secs_f64(at_most),
        })
    }
    /// Watches a variable.
    fn watch(&mut self, variable: VariableId, at_most: f64) -> Option<What>;
    /// Profiles sites; what is known then, if anything.
    fn profile(&mut self, _sites: &[SiteId], at_most: f64) -> Option<What> {
        self.rest(at_most);
        None
    }
    /// Looks which threads are off their processors, right before accesses.
    fn preempted(&mut self) -> Vec<Candidate> {
        Vec::new()
    }
    /// One of them is taken.
    fn takes(&mut self, _candidate: &Candidate) -> Option<Self::Standing> {
        None
    }
    /// Watches what it is about to access, which is likely to be off for so long, s, for so long at most; what comes of it.
    fn watch_preempted(&mut self, _standing: Self::Standing, _left: f64, at_most: f64) -> What {
        What::NoSample {
            waited: Duration::from_secs_f64(at_most),
        }
    }
    /// Does nothing.
    fn rest(&mut self, seconds: f64);
    /// What was seen of bytes that were watched in advance.
    fn passed(&mut self) -> Option<What>;

    /// Where a thread stands, and what it is about to access.
    fn place(&self, standing: Self::Standing) -> (SiteId, AddressId);
    /// The sites to which a thread comes next, whom a sample has stopped.
    fn ahead(&self, standing: Self::Standing) -> Vec<SiteId>;
    /// The thread goes on to another site.
    fn goes_on(&mut self, standing: Self::Standing, to: SiteId) -> Option<Self::Standing>;
    /// Does that with a thread; what comes of it.
    fn stop(&mut self, standing: Self::Standing, then: Then) -> What;
    /// What was seen after a stall.
    fn after(&mut self) -> Option<What>;
}

/// Hunts until it is over.
pub(super) fn hunt(scene: &mut impl Scene, planner: &mut dyn Planner) {
    tell(scene, planner, None, What::WatchesAhead);
    for what in scene.offers() {
        tell(scene, planner, None, what);
    }
    let code = scene.code();
    tell(scene, planner, None, What::Code(code));
    while !scene.is_over() {
        for what in scene.happens() {
            tell(scene, planner, None, what);
        }
        let purse = scene.purse();
        let action = planner.decide(time(scene), &purse);
        act(scene, &action, planner);
    }
}

fn time(scene: &impl Scene) -> Duration {
    Duration::from_secs_f64(scene.now())
}

fn tell(scene: &impl Scene, planner: &mut dyn Planner, of: Option<&Action>, what: What) {
    let of = of.map(|action| action.id);
    planner.observe(time(scene), &Event { of, what });
}

fn act(scene: &mut impl Scene, action: &Action, planner: &mut dyn Planner) {
    let before = scene.spent_s();
    let what = match &action.deed {
        &Deed::Wait {
            site,
            at_most,
            then,
            wanted,
        } => {
            let came = scene.wait(site, at_most.as_secs_f64(), wanted);
            if let Ok((_, waited)) = came {
                tell(scene, planner, Some(action), What::Came { site, waited });
            }
            if let Some(passed) = scene.passed() {
                tell(scene, planner, Some(action), passed);
            }
            match came {
                Ok((standing, waited)) => {
                    stands(scene, standing, Some(waited), then, action, planner)
                }
                Err(nobody) => nobody,
            }
        }
        &Deed::Sample { at_most, then } => match scene.sample(at_most.as_secs_f64()) {
            Ok(standing) => stands(scene, standing, None, then, action, planner),
            Err(nobody) => Some(nobody),
        },
        Deed::Arrival { but, at_most } => match scene.arrival(but, at_most.as_secs_f64()) {
            Ok(standing) => stands(scene, standing, None, Then::LetGo, action, planner),
            Err(nobody) => Some(nobody),
        },
        Deed::Preempted => Some(preempted(scene, action, planner)),
        &Deed::Watch { variable, at_most } => scene.watch(variable, at_most.as_secs_f64()),
        Deed::Profile { sites, at_most } => scene.profile(sites, at_most.as_secs_f64()),
        Deed::Rest { time } => {
            const LEAST_S: f64 = 1e-3;
            scene.rest(time.as_secs_f64().max(LEAST_S));
            None
        }
    };
    if let Some(what) = what {
        tell(scene, planner, Some(action), what);
    }
    if let Some(what) = scene.after() {
        tell(scene, planner, Some(action), what);
    }
    let cost = scene.spent_s() - before;
    tell(scene, planner, Some(action), What::Cost(cost));
}

/// Has the planner choose one of the threads that are off their processors; what has come of it.
fn preempted(scene: &mut impl Scene, action: &Action, planner: &mut dyn Planner) -> What {
    /// Where there is nobody who is worth it, it is tried again after this time.
    const PAUSE: Duration = Duration::from_millis(5);
    let all = scene.preempted();
    let chosen = planner.preempted(time(scene), &all);
    let taken = chosen.and_then(|(index, at_most)| {
        let candidate = all.get(index)?;
        Some((scene.takes(candidate)?, candidate.left, at_most))
    });
    let Some((standing, left, at_most)) = taken else {
        scene.rest(PAUSE.as_secs_f64());
        return What::NoSample { waited: PAUSE };
    };
    let (site, address) = scene.place(standing);
    tell(scene, planner, Some(action), What::About { site, address });
    scene.watch_preempted(standing, left.as_secs_f64(), at_most.as_secs_f64())
}

/// A thread stands: asks what to do with it, and does that.
fn stands<S: Scene>(
    scene: &mut S,
    mut standing: S::Standing,
    waited: Option<Duration>,
    then: Then,
    action: &Action,
    planner: &mut dyn Planner,
) -> Option<What> {
    let (site, address) = scene.place(standing);
    tell(scene, planner, Some(action), What::About { site, address });
    // Whoever came to where one was waited for is stopped there.
    let ahead = match waited {
        Some(_) => vec![site],
        None => scene.ahead(standing),
    };
    let instead = planner.stopped(time(scene), &ahead, waited);
    let (to, then) = instead.unwrap_or((site, then));
    if to != site {
        standing = scene.goes_on(standing, to)?;
        let (site, address) = scene.place(standing);
        tell(scene, planner, Some(action), What::About { site, address });
    }
    Some(scene.stop(standing, then))
}
