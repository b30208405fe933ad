//! Many processes on one table, and processes that are killed in the middle of a commit. The test binary runs itself as the children.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::concurrency::check;
use super::*;

const ADDRESS: &str = "PENSIEVE_TEST_CHILD_ADDRESS";
const APPENDS: &str = "PENSIEVE_TEST_CHILD_APPENDS";

/// Not a test of its own: what a child process does. Prints the id of each extent before and after its commit.
#[test]
fn child() {
    let (Ok(address), Ok(appends)) = (std::env::var(ADDRESS), std::env::var(APPENDS)) else { return };
    let catalog = any(&address);
    let stdout = std::io::stdout();
    for i in 0..appends.parse::<i64>().unwrap() {
        let extent = plain(DAY_ONE + i * HOUR / 5);
        let id = extent.written.extent_id;
        writeln!(stdout.lock(), "\ntry {id}").unwrap();
        let view = catalog.table(&logs()).unwrap().unwrap();
        catalog.commit(&view, &Changes::append(vec![extent])).unwrap();
        writeln!(stdout.lock(), "\ndone {id}").unwrap();
    }
}

/// Postgres wants to know where its extents are; SQLite and the log know.
fn any(address: &str) -> Arc<dyn Catalog> {
    if address.starts_with("postgres:") { attach_with(address) } else { attach(address) }
}

fn spawn(address: &str, appends: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "catalog::tests::processes::child", "--nocapture", "--test-threads=1"])
        .env(ADDRESS, address)
        .env(APPENDS, appends.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Ids the child began to commit and ids it saw committed, from its output.
fn parse(lines: &[String]) -> (Vec<Uuid>, Vec<Uuid>) {
    let of = |word: &str| lines.iter().filter_map(|l| l.strip_prefix(word)?.parse().ok()).collect();
    (of("try "), of("done "))
}

/// Waits for the end of a child.
fn output(child: Child) -> (Vec<Uuid>, Vec<Uuid>) {
    let output = child.wait_with_output().unwrap();
    parse(&String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Lets a child begin its first commit, then kills it `after` that.
fn kill(mut child: Child, after: Duration) -> (Vec<Uuid>, Vec<Uuid>) {
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines: Vec<String> = Vec::new();
    while !lines.last().is_some_and(|line| line.starts_with("try ")) {
        lines.push(stdout.next().expect("the child ended before its first commit").unwrap());
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    lines.extend(stdout.map_while(Result::ok));
    parse(&lines)
}

/// Size of a run, from the environment for the long form.
fn size(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

pub(in crate::catalog) fn appends(address: &str) {
    create_logs(&*any(address));
    let (processes, each) = (size("PENSIEVE_TEST_PROCESSES", 4), size("PENSIEVE_TEST_APPENDS", 10));
    let children: Vec<Child> = (0..processes).map(|_| spawn(address, each)).collect();
    let committed: Vec<Uuid> = children.into_iter().flat_map(|c| output(c).1).collect();
    assert_eq!(committed.len(), processes * each);
    check(&*any(address), &committed);
}

pub(in crate::catalog) fn kills(address: &str) {
    create_logs(&*any(address));
    let (mut tried, mut done) = (Vec::new(), Vec::new());
    for round in 0..size("PENSIEVE_TEST_KILLS", 12) {
        let random = u64::try_from(Uuid::new_v4().as_u128() % 80_000).unwrap();
        let (began, finished) = kill(spawn(address, 100_000), Duration::from_micros(random));
        tried.extend(began);
        done.extend(finished);
        // The store opens, and every committed extent is there exactly once; the one that was under way may be.
        let catalog = any(address);
        let view = catalog.table(&logs()).unwrap().unwrap();
        let found = ids(&*catalog, &view);
        let unique: std::collections::HashSet<&Uuid> = found.iter().collect();
        assert_eq!(unique.len(), found.len(), "round {round}");
        assert!(done.iter().all(|id| unique.contains(id)), "round {round}: a committed extent is lost");
        assert!(found.iter().all(|id| tried.contains(id)), "round {round}: an unknown extent appeared");
        assert_eq!(found.len() as u64, view.snapshot.sequence, "round {round}");
    }
    let catalog = any(address);
    let last = append(&*catalog, vec![plain(1)]);
    assert_eq!(sequences(&*catalog), (0..=last.snapshot.sequence).collect::<Vec<_>>());
}

#[test]
fn processes_append_to_a_manifest_log() {
    let dir = tempfile::tempdir().unwrap();
    appends(dir.path().to_str().unwrap());
}

#[test]
fn killed_writers_leave_a_manifest_log_whole() {
    let dir = tempfile::tempdir().unwrap();
    kills(dir.path().to_str().unwrap());
}
