//! Images of a few kilobytes that require much work, and the resources that the program uses for each.

use std::fs;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::parallel::in_parallel;
use testkit::seeds::is_asked;

use super::hostile_images::{Entries, measure, write_image};

/// `testdata/work-bombs.yaml`. In all texts, `<N*TEXT>` is N times the text, in which `#` is the number of the time.
/// `CUPTI_AUDIT_CASE=WORDS` runs the rows with these words in their name.
#[derive(Deserialize)]
struct BombFile {
    rows: IndexMap<String, Bomb>,
}

/// An image: Debian with libcupti, and what a row adds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bomb {
    #[serde(default)]
    env: IndexMap<String, String>,
    /// The image's command.
    start: Option<Vec<String>>,
    /// The subcommand instead of the audit.
    #[serde(default)]
    subcommand: Vec<String>,
    /// The maximum CPU seconds, if they are less than in other rows.
    seconds: Option<u64>,
    /// Why no engine unpacks the layer, which leaves the verdict open.
    gap: Option<String>,
    files: Vec<Files>,
    /// Whether its programs lack a dependency. The findings before the limit must stay.
    #[serde(default)]
    lacking: bool,
    /// Whether only a limit stops it.
    #[serde(default)]
    stopped: bool,
}

/// Files that differ in their number, `@` in the texts; `@+1` is the next number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    /// A number, `many` or nothing, for one file without a number.
    count: Option<Value>,
    path: String,
    /// As in a fixture. Each line of a text in a list is an item.
    entry: Value,
}

/// The number of files in rows with thousands of them: 5,000 if `CUPTI_AUDIT` names an optimised program.
fn many() -> u64 {
    if std::env::var_os("CUPTI_AUDIT").is_some() {
        5_000
    } else {
        1_000
    }
}

/// The text with its repetitions.
fn repeated(text: &str) -> String {
    let begin = |at: usize| {
        let (times, _) = text[at..].strip_prefix('<')?.split_once('*')?;
        times.parse::<usize>().ok().map(|number| (number, at + times.len() + 2))
    };
    let Some((at, (times, inside))) = text.match_indices('<').find_map(|(at, _)| Some((at, begin(at)?))) else {
        return text.to_owned();
    };
    // A `<` inside begins another repetition.
    let mut depth = 1;
    let end = text[inside..].find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        depth == 0
    });
    let (body, rest) = text[inside..].split_at(end.expect("a repetition ends"));
    let middle = if body.contains('#') {
        (0..times)
            .map(|number| repeated(&body.replace('#', &number.to_string())))
            .collect()
    } else {
        repeated(body).repeat(times)
    };
    text[..at].to_owned() + &middle + &repeated(&rest[1..])
}

/// The value with the number of its file, and its repetitions.
fn made(value: &Value, number: Option<u64>) -> Value {
    let text = |text: &str| {
        let text = number.map_or(text.to_owned(), |number| {
            let next = text.replace("@+1", &(number + 1).to_string());
            next.replace('@', &number.to_string())
        });
        repeated(&text)
    };
    match value {
        Value::String(value) => text(value).into(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), made(value, number)));
            fields.collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| text(item.as_str().expect("lists have texts")));
            let lines = items.flat_map(|item| item.lines().map(Value::from).collect::<Vec<_>>());
            lines.collect()
        }
        other => other.clone(),
    }
}

impl Files {
    fn entries(&self) -> Entries {
        let numbers: Vec<Option<u64>> = match &self.count {
            None => vec![None],
            Some(count) => (0..count.as_u64().unwrap_or_else(many)).map(Some).collect(),
        };
        let entry = |number| {
            let path = made(&self.path.clone().into(), number);
            let entry = serde_json::from_value(made(&self.entry, number)).unwrap();
            (path.as_str().unwrap().to_owned(), entry)
        };
        numbers.into_iter().map(entry).collect()
    }
}

/// The messages about a reached limit.
const ENDS: [&str; 4] = [
    "are compared with more than",
    "more steps than are followed",
    "and the rest was not judged",
    "(object-names)",
];

/// The maximum MiB and CPU seconds per row; the test build is not optimised.
const MOST: (u64, u64) = (300, 60);

/// Runs the program on an image, prints the resources it used, and checks the limits.
fn hold(row: &str, bomb: &Bomb) {
    let folder = TempDir::new().unwrap();
    let entries = bomb.files.iter().flat_map(Files::entries).collect();
    let image = write_image(folder.path(), entries, |fixture| {
        let env = bomb.env.iter().map(|(name, value)| (name.clone(), repeated(value)));
        fixture.env.extend(env);
        let start = bomb
            .start
            .as_ref()
            .map(|command| ("Entrypoint".to_owned(), json!(command)));
        fixture.config.extend(start);
    });
    let program = std::env::var("CUPTI_AUDIT").unwrap_or_else(|_| env!("CARGO_BIN_EXE_cupti-audit").to_owned());
    let mut arguments: Vec<&str> = bomb.subcommand.iter().map(String::as_str).collect();
    if arguments.is_empty() {
        arguments.extend(["--format", "json"]);
    }
    let run = measure(&program, &[&arguments[..], &[&image]].concat());
    let seconds = run.took.as_secs();
    println!("budget: {row}: exit {:?}, {seconds} s, {} MiB", run.code, run.peak_mib);
    assert!(run.code.is_some_and(|code| code <= 2), "{row}: {}", run.stderr);
    assert!(
        run.peak_mib <= MOST.0 && seconds <= bomb.seconds.unwrap_or(MOST.1),
        "{row}"
    );
    if let Some(gap) = &bomb.gap {
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let verdict = report["verdict"].as_str().unwrap();
        let told = report["gaps"].to_string();
        assert!(
            run.code == Some(2)
                && verdict.starts_with("cannot tell whether CUPTI loads: layer 3: no engine unpacks it")
                && told.contains(gap),
            "{row}: {verdict}: {told}"
        );
    } else if bomb.start.is_none() && bomb.subcommand.is_empty() {
        let ends = ENDS.iter().any(|end| run.stdout.contains(end));
        let open = if bomb.lacking { Some(1) } else { Some(2) };
        assert_eq!(ends, run.code == open, "{row}: {}", run.stderr);
        assert!(ends || !bomb.stopped, "{row}");
    }
}

#[test]
fn x_01_to_x_06_y_01_y_03_y_09_work_bombs_are_judged_in_bounds_or_end_in_a_gap() {
    let text = fs::read_to_string("testdata/work-bombs.yaml").unwrap();
    let mut file: BombFile = serde_saphyr::from_str(&text).unwrap();
    file.rows.retain(|row, _| is_asked(row));
    in_parallel(file.rows.len(), |number| {
        let (row, bomb) = file.rows.get_index(number).unwrap();
        hold(row, bomb);
    });
}
