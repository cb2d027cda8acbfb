//! The examples of the documentation, against the real server.

use quipu_client::{
    Applied, BatcherOptions, Client, ClientOptions, Failure, LateMutations, Token, v1::EventOutcome,
};
use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

/// `quipu serve` on a fresh directory, as long as the test runs.
struct Server {
    url: String,
    child: Child,
    _directory: TempDir,
}

/// The binary that was built with the same profile.
fn binary() -> PathBuf {
    let given = env::var_os("QUIPU_TEST_BINARY").map(PathBuf::from);
    let beside = || {
        let test = env::current_exe().expect("a test knows where it is");
        test.ancestors()
            .nth(2)
            .expect("it is in target/PROFILE/deps")
            .join("quipu")
    };
    let binary = given.unwrap_or_else(beside);
    assert!(
        binary.exists(),
        "{} is missing: run `cargo build -p quipu` with the same profile first",
        binary.display()
    );
    binary
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(binary())
            .args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
            .arg("--data")
            .arg(directory.path().join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://"));
        Self {
            url: url.expect(&line).to_owned(),
            child,
            _directory: directory,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn what_is_added_alone_and_in_batches_is_counted_once() {
    let server = Server::start();
    let options = ClientOptions::new(&server.url).hedge_after(Duration::from_millis(500));
    let client = Client::connect(options).await.unwrap();
    let namespaces = client.namespaces();
    let document = r#"{"namespace": "web", "accept_limit": "500ms"}"#.to_owned();
    namespaces.apply("web", document).await.unwrap();
    assert_eq!(namespaces.show("web").await.unwrap()["namespace"], "web");

    let receipt = client.add("web", "page_views", 5).await.unwrap();
    assert_eq!(receipt.applied, Applied::Accepted);
    let again = client
        .add("web", "page_views", 5)
        .with_token(receipt.token.clone());
    again.await.unwrap();
    let batcher = client.batcher(BatcherOptions::default());
    for _ in 0..3_000 {
        batcher.add("web", "page_views", 1).await.unwrap();
    }
    let report = batcher.close().await.unwrap();
    assert_eq!((report.applied, report.failed), (3_000, 0), "{report:?}");

    let added = client.add("web", "page_views", 1).and_get().await.unwrap();
    assert!(!added.includes_add, "the rollup comes later: {added:?}");
    let asked = SystemTime::now();
    loop {
        let count = client.get("web", "page_views").await.unwrap();
        if count.complete_through >= Some(added.receipt.token.generation_time()) {
            assert_eq!(count.count, 3_006);
            break;
        }
        assert!(
            asked.elapsed().unwrap() < Duration::from_secs(30),
            "{count:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let found = client.lookup("web", "page_views", &receipt.token, "").await;
    assert_eq!(found.unwrap().outcome(), EventOutcome::Stored);

    // The window is closed now.
    let again = client
        .add("web", "page_views", 5)
        .with_token(receipt.token.clone());
    assert_eq!(again.await.unwrap().applied, Applied::AlreadyApplied);
    let old = Token::given("never-sent", receipt.token.generation_time());
    let late = client
        .add("web", "page_views", 5)
        .with_token(old)
        .await
        .unwrap_err();
    assert!(matches!(late.failure, Failure::Late(_)), "{late:?}");
    assert!(!late.may_be_applied);
    client.clear("web", "page_views").await.unwrap();
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let server = Server::start();
    let options = ClientOptions::new(&server.url).late_mutations(LateMutations::Return);
    let client = Client::connect(options).await.unwrap();
    let error = client.add("nowhere", "c", 1).await.unwrap_err();
    assert_eq!(
        error.failure.code_and_reason(),
        ("NOT_FOUND", "UNKNOWN_NAMESPACE")
    );
    let error = client.add("default", "", 1).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error:?}");
    assert!(error.failure.is_malformed_item());
    let error = client.namespaces().show("nowhere").await.unwrap_err();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error:?}");
}
