//! One call: attempts, hedges and waits until it is settled or its time is over.

use crate::{
    client::Client,
    failure::{Error, Failure, Said},
    hedge::{settles, together},
    modes::Repeats,
    options::Event,
    retry::{Attempts, Entropy, Next},
    transport::Transport,
    verdict::{is_own_timeout, of_call, unanswered},
};
use futures::future::{Either, pending, select};
use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tonic::{Request, Status};

/// What came back: a message, read, or the status of a failure.
pub(crate) type Answer<T> = Result<Result<T, Failure>, Status>;

/// What a call does, and so what a failure of it leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// It changes nothing.
    Reads,
    /// It may be made again as it is.
    Changes,
    /// It changes counters of this namespace, under tokens: what may have been applied is only sent
    /// again where it counts once.
    Mutates(&'a str),
}

/// A call under way.
pub(crate) struct Calling<'a> {
    client: &'a Client,
    kind: Kind<'a>,
    attempts: Attempts,
    /// How the last attempt failed that may have been applied.
    unsettled: Option<Failure>,
}

impl<'a> Calling<'a> {
    /// A call that begins now.
    pub(crate) fn new(client: &'a Client, kind: Kind<'a>, timeout: Duration) -> Self {
        client.count_call();
        Self {
            client,
            kind,
            attempts: Attempts::new(client.shared.clock.steady(), timeout),
            unsettled: None,
        }
    }

    /// The same, of a call that asks the server to wait for something.
    pub(crate) fn waiting(self) -> Self {
        let attempts = self.attempts.waiting();
        Self { attempts, ..self }
    }

    /// How long a step may take from now on.
    pub(crate) fn patience(&self) -> Duration {
        self.attempts.patience(self.client.shared.clock.steady())
    }

    /// Sends until there is an answer, a definitive failure, or no time left.
    pub(crate) async fn call<T, F, Fut>(&mut self, send: &F) -> Result<T, Failure>
    where
        F: Fn(Transport, Duration) -> Fut + Sync,
        Fut: Future<Output = Answer<T>> + Send,
        T: Send,
    {
        loop {
            match self.attempt(send).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    if !self.goes_on_after(&failure).await {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// One attempt, perhaps hedged. What may have been applied is not sent before it is known to
    /// count once.
    pub(crate) async fn attempt<T, F, Fut>(&self, send: &F) -> Result<T, Failure>
    where
        F: Fn(Transport, Duration) -> Fut + Sync,
        Fut: Future<Output = Answer<T>> + Send,
        T: Send,
    {
        let patience = self.patience();
        if let (Kind::Mutates(namespace), Some(unsettled)) = (self.kind, &self.unsettled) {
            match self.client.repeats(namespace, patience).await {
                Ok(Repeats::CountOnce) => {}
                Ok(Repeats::CountTwice) => return Err(unsettled.clone()),
                Err(why) => return Err(not_known_to_count_once(unsettled, &why)),
            }
        }
        self.hedged(send, self.patience()).await
    }

    async fn hedged<T, F, Fut>(&self, send: &F, patience: Duration) -> Result<T, Failure>
    where
        F: Fn(Transport, Duration) -> Fut + Sync,
        Fut: Future<Output = Answer<T>> + Send,
        T: Send,
    {
        let Some(delay) = self.client.shared.options.hedge_after else {
            return self.client.once(send, patience).await;
        };
        let began = AtomicBool::new(false);
        let first = self.client.once(send, patience);
        let second = async {
            sleep(delay).await;
            if !self.may_hedge(patience).await {
                pending::<()>().await;
            }
            began.store(true, Relaxed);
            self.client.once(send, self.patience()).await
        };
        match select(pin!(first), pin!(second)).await {
            Either::Left((first, _)) if settles(&first) || !began.load(Relaxed) => first,
            Either::Left((first, second)) => together(first, second.await),
            Either::Right((second, _)) if settles(&second) => second,
            Either::Right((second, first)) => together(first.await, second),
        }
    }

    async fn may_hedge(&self, patience: Duration) -> bool {
        let counts_once = match self.kind {
            Kind::Reads | Kind::Changes => true,
            Kind::Mutates(namespace) => {
                let repeats = self.client.repeats(namespace, patience).await;
                repeats == Ok(Repeats::CountOnce)
            }
        };
        counts_once && self.client.may_send_more()
    }

    /// Waits before the next attempt; false if there is to be none.
    pub(crate) async fn goes_on_after(&mut self, failure: &Failure) -> bool {
        self.attempts.take_up(failure);
        if matches!(failure, Failure::Unsettled { .. }) {
            self.unsettled = Some(failure.clone());
        }
        let (now, entropy) = (self.client.shared.clock.steady(), Entropy::draw());
        let next = self
            .attempts
            .on_failure(failure, self.known_repeats(), now, entropy);
        let Next::Retry(wait) = next else {
            return false;
        };
        if !self.client.may_send_more() {
            return false;
        }
        self.client.observe(&Event::Retry {
            failure,
            failures: self.attempts.failures(),
            wait,
            timeout: self.attempts.timeout(),
        });
        sleep(wait).await;
        true
    }

    fn known_repeats(&self) -> Option<Repeats> {
        match self.kind {
            Kind::Reads | Kind::Changes => None,
            Kind::Mutates(namespace) => self.client.known_repeats(namespace),
        }
    }

    /// What a failure says once there is to be no other attempt: where a retry would count twice,
    /// what is unsettled stays unknown.
    pub(crate) fn in_the_end(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Unsettled { said, .. }
                if self.known_repeats() == Some(Repeats::CountTwice) =>
            {
                let message = format!(
                    "{said}; the namespace counts by best effort, so it was not sent again: it may \
                     or may not have been applied"
                );
                Failure::OutcomeUnknown(Said {
                    reason: "NOT_IDEMPOTENT".to_owned(),
                    message,
                    ..said
                })
            }
            failure => failure,
        }
    }

    /// The error of a call that ended with a failure.
    pub(crate) fn error(&self, failure: Failure) -> Error {
        Error {
            failure: self.in_the_end(failure),
            may_be_applied: self.attempts.are_open() && self.kind != Kind::Reads,
            token: None,
        }
    }
}

impl Client {
    /// One attempt, without a hedge.
    pub(crate) async fn once<T, F, Fut>(&self, send: &F, patience: Duration) -> Result<T, Failure>
    where
        F: Fn(Transport, Duration) -> Fut + Sync,
        Fut: Future<Output = Answer<T>> + Send,
        T: Send,
    {
        let channel = self.connected(patience).await?;
        match timeout(patience, send(channel, patience)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) if is_own_timeout(&status) => Err(unanswered(patience)),
            Ok(Err(status)) => Err(of_call(&status, &self.server())),
            Err(_) => Err(unanswered(patience)),
        }
    }
}

/// A message with the time that its sender waits for the answer, so that the server knows it too.
pub(crate) fn within<M>(patience: Duration, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(patience);
    request
}

/// What may have been applied, of a namespace whose document could not be read.
fn not_known_to_count_once(unsettled: &Failure, why: &Failure) -> Failure {
    if why.is_transient() {
        return unsettled.clone();
    }
    let (code, reason) = why.code_and_reason();
    Failure::Unsettled {
        said: Said {
            code: code.to_owned(),
            reason: reason.to_owned(),
            message: format!(
                "{unsettled}; it was not sent again, since the namespace's document does not tell that \
                 it would count once: {why}"
            ),
        },
        retry_after: None,
    }
}
