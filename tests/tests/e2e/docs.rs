//! The commands of the documentation, run as they stand.

use crate::{
    http::Api,
    process::{Place, Server, binary, flights},
};
use quipu_adapters::clock::Clock;
use serde_json::Value;
use std::{
    env, fs,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

/// A fenced block: its language and its text.
type Block = (String, String);

fn blocks(page: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = fs::read_to_string(path).expect("the page is there");
    let mut parts = text.split("\n```");
    let mut blocks = Vec::new();
    // What stands before a fence that opens, then what stands before the one that closes it.
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').expect("a fence ends its line");
        blocks.push((language.to_owned(), text.to_owned()));
    }
    blocks
}

/// A shell that has what the examples need.
struct Shell<'a> {
    place: &'a Place,
    server: &'a Server,
}

impl Shell<'_> {
    /// Runs a block against the test's server instead of the usual ports.
    fn run(&self, block: &str) -> String {
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        let (http, grpc) = (address(&self.server.http), address(&self.server.grpc));
        let script = block
            .replace("127.0.0.1:7070", &http)
            .replace("localhost:7070", &http)
            .replace("127.0.0.1:7071", &grpc)
            .replace("quipu=target/release/quipu", "quipu=quipu");
        let programs = binary();
        let programs = programs.parent().expect("it is in a directory");
        let path = env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(self.place.beside(""))
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("QUIPU_SERVER", &self.server.http)
            .output()
            .expect("bash runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{text}\n{error}");
        text
    }
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).exists())
}

/// The last JSON value of what a block printed; headers may stand before it.
fn last_json(text: &str) -> Option<Value> {
    let json = &text[text.find('{')?..];
    let values = serde_json::Deserializer::from_str(json).into_iter();
    values.map_while(Result::ok).last()
}

/// Whether an answer is what the page shows: the same fields, and the same status and count.
fn agrees(shown: &Value, answer: &Value) -> bool {
    let keys = |value: &Value| -> Vec<String> {
        let object = value.as_object().expect("answers are objects");
        object.keys().cloned().collect()
    };
    keys(shown) == keys(answer)
        && ["status", "outcome", "count", "namespace", "accept_limit"]
            .iter()
            .all(|field| shown.get(field) == answer.get(field))
}

#[test]
fn every_command_of_the_api_page_answers_as_the_page_says() {
    let place = Place::new();
    let server = place.start();
    let shell = Shell {
        place: &place,
        server: &server,
    };
    let blocks = blocks("docs/api.md");
    let functions = blocks
        .iter()
        .find(|(_, block)| block.contains("new_token() {"));
    let (_, functions) = functions.expect("the page defines what its examples use");
    let mut run = 0;
    for (number, (language, block)) in blocks.iter().enumerate() {
        let needs_grpcurl = block.contains("grpcurl") && !is_installed("grpcurl");
        if language != "sh" || needs_grpcurl || block == functions {
            continue;
        }
        run += 1;
        let started = Instant::now();
        loop {
            let text = shell.run(&format!("{functions}\n{block}"));
            assert!(
                !text.contains(r#"{"error":{"code""#) || text.contains("results"),
                "{block}\n{text}"
            );
            let Some((language, shown)) = blocks.get(number + 1) else {
                break;
            };
            if language != "json" || block.contains("grpcurl") {
                break;
            }
            let shown: Value = serde_json::from_str(shown).expect("the page shows JSON");
            let answer = last_json(&text).expect("the answer is JSON");
            if agrees(&shown, &answer) {
                break;
            }
            // The page says that a count is there a few seconds later.
            let may_wait = shown.get("count").is_some() && !block.contains("-d @-");
            assert!(
                may_wait && started.elapsed() < Duration::from_secs(20),
                "{block}\nanswers {answer}\nnot {shown}"
            );
            sleep(Duration::from_millis(300));
        }
    }
    assert!(run >= 10, "{run} blocks only");
    place.assert_no_panic();
}

#[test]
fn the_api_page_pasted_at_once_leaves_the_count_that_it_says() {
    let place = Place::new();
    let server = place.start();
    let shell = Shell {
        place: &place,
        server: &server,
    };
    let blocks = blocks("docs/api.md");
    let commands = blocks
        .iter()
        .filter(|(language, block)| language == "sh" && !block.contains("grpcurl"));
    let page: Vec<_> = commands.map(|(_, block)| block.as_str()).collect();
    shell.run(&page.join("\n"));
    let now = Clock::system().now().get();
    // After the clear come the batch's 1 and the look-up's 5.
    assert_eq!(
        Api::new(&server.http).count_through("default", "home/plays", now),
        6
    );
}

#[test]
fn the_usage_of_the_readme_works_as_it_stands() {
    let place = Place::new();
    let data = place.beside("tests/data");
    fs::create_dir_all(&data).expect("a directory");
    let name = flights().file_name().expect("it has a name");
    fs::copy(flights(), data.join(name)).expect("a copy");
    let server = place.start();
    let shell = Shell {
        place: &place,
        server: &server,
    };
    let blocks = blocks("README.md");
    // The whole year comes over the network, which a test must not need.
    let usage = blocks.iter().filter(|(language, block)| {
        language == "sh"
            && !block.contains("scripts/fetch-flights")
            && (block.contains("$quipu ") || block.contains("localhost:7070"))
    });
    let mut run = 0;
    for (_, block) in usage {
        let text = shell.run(block);
        assert!(!text.contains(r#""error""#), "{block}\n{text}");
        run += 1;
    }
    assert_eq!(run, 2);
    let api = Api::new(&server.http);
    let now = Clock::system().now().get();
    assert_eq!(api.count_through("default", "home/plays", now), 4);
    assert_eq!(api.count_through("default", "origin/EWR", now), 9_893);
    assert_eq!(api.count_through("default", "carrier/UA", now), 4_637);
    place.assert_no_panic();
}
