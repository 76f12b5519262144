//! The documentation page of the programs that request CUPTI, and of the profiling tools.

use std::fmt::Write as _;

use cupti_audit::knowledge::{
    ConsumerProfile, FailureImpact, FrameworkRelease, Knowledge, ProfileEvidence, Profiler, RequestKind,
};
use cupti_audit::report::pages::profilers::cupti_need_words;

/// The start of the tools page.
const HEAD: &str = "\
<!-- Generated from profiles/consumers/*.yaml and profiles/profilers/*.yaml by `cargo xtask docs`; edit those. -->
# Programs and tools

`cupti-audit` knows these programs and profiling tools. It also finds other programs, by the libraries that they link and
by the library names that their files contain.

*Evidence* says how we know: *seen* in the package itself, *reported* by its public source or manual, or *inferred* from
other facts. An empty cell means that we give no source. *as PyTorch* refers to PyTorch's row of the first table.

## Programs that use CUPTI

*cannot profile* means that only the part for profiling does not load, and the program runs without it.

| program | its file | how it gets CUPTI | without CUPTI | evidence |
|---|---|---|---|---|
";

const TOOLS: &str = "
## Profiling tools

CUPTI *in the image*: the tool loads a libcupti of the image. *brings its own*: CUPTI is a part of the tool. *reads traces*:
the tool shows traces that another tool recorded.

| tool | names for `--tool` | where CUPTI is | gives | evidence |
|---|---|---|---|---|
";

const RELEASES: &str = "
## The CUPTI of framework releases

pip installs CUPTI with these wheels for x86-64, JAX's with the extra `with-cuda` and TensorFlow's with `and-cuda`. *asks for*
are the names of libcupti in the program, *looks in* the folders of CUPTI in its search path.

| releases | installs | asks for | looks in |
|---|---|---|---|
";

/// The programs and tools as a documentation page in Markdown.
pub fn tools_page(known: &Knowledge) -> String {
    let mut out = HEAD.to_owned();
    for consumer in &known.consumers {
        let (name, object) = (&consumer.name, &consumer.object);
        let evidence = consumer.evidence.as_ref().map(evidence_words).unwrap_or_default();
        let (request, without) = (request_words(consumer), impact_words(consumer.required));
        let _ = writeln!(out, "| {name} | `{object}` | {request} | {without} | {evidence} |");
    }
    out.push_str(TOOLS);
    for tool in &known.profilers {
        let said = &tool.profile;
        let names: Vec<String> = tool.names().map(|name| format!("`{name}`")).collect();
        let cupti = cupti_need_words(said.cupti);
        let evidence = tool_evidence(known, tool);
        let _ = writeln!(
            out,
            "| {} | {} | {cupti} | {} | {evidence} |",
            said.name,
            names.join(" "),
            said.gives
        );
    }
    out.push_str(RELEASES);
    let is_same = |one: &FrameworkRelease, other: &FrameworkRelease| {
        let facts = |it: &FrameworkRelease| {
            (
                it.package.clone(),
                it.requires.clone(),
                it.names.clone(),
                it.search.clone(),
            )
        };
        facts(one) == facts(other)
    };
    for run in known.tables.framework_releases.chunk_by(is_same) {
        let [first, ..] = run else { continue };
        let last = run.last().map_or("", |release| &release.version);
        let versions = if run.len() == 1 {
            last.to_owned()
        } else {
            format!("{} to {last}", first.version)
        };
        let code = |words: &[String]| {
            words
                .iter()
                .map(|word| format!("`{word}`"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let requires = code(
            std::slice::from_ref(&first.requires)
                .get(usize::from(first.requires.is_empty())..)
                .unwrap_or_default(),
        );
        let (names, search) = (code(&first.names), code(&first.search));
        let _ = writeln!(
            out,
            "| {} {versions} | {requires} | {names} | {search} |",
            first.package
        );
    }
    out
}

fn request_words(consumer: &ConsumerProfile) -> String {
    let request = match (consumer.request_kind, consumer.names.as_slice()) {
        (RequestKind::Needed, _) => "is linked with it".to_owned(),
        (RequestKind::Dlopen, []) => "opens the library names that its file contains".to_owned(),
        (RequestKind::Dlopen, names) => format!("opens `{}`", names.join("`, `")),
    };
    let elsewhere = consumer.looks_elsewhere.as_ref();
    elsewhere.map_or(request.clone(), |place| format!("{request}; also looks {place}"))
}

fn impact_words(impact: FailureImpact) -> &'static str {
    match impact {
        FailureImpact::Import => "cannot be started or imported",
        FailureImpact::Gpu => "uses no GPU",
        FailureImpact::Profiling => "cannot profile",
    }
}

fn evidence_words(evidence: &ProfileEvidence) -> String {
    format!("{}: {}", evidence.certainty.name(), evidence.source)
}

fn tool_evidence(known: &Knowledge, tool: &Profiler) -> String {
    let id = tool.profile.consumer.as_deref();
    let program = known.consumers.iter().find(|consumer| Some(consumer.id.as_str()) == id);
    let of_program = program.map(|program| format!("as {}", program.name));
    let own = tool.profile.evidence.as_ref().map(evidence_words);
    own.or(of_program).unwrap_or_default()
}
