//! Determines one worker's share of the worklist, from the number that its engine assigns.

/// One of several equal shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkShare {
    /// The number of the share, from 0.
    index: usize,
    count: usize,
}

/// The engines' variables for a worker's number, from 0, and for the number of workers.
const COUNTED: [(&str, &str, &str); 3] = [
    // Kubernetes only sets the index; the total is in the Job, and in --shards.
    ("Kubernetes", "JOB_COMPLETION_INDEX", ""),
    ("Cloud Run", "CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT"),
    ("AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
];

/// Slurm's variable; `--array` sets the start and the step of its numbers.
const SLURM: &str = "SLURM_ARRAY_TASK_ID";

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

impl WorkShare {
    /// The whole list, for a single worker.
    const WHOLE: Self = Self { index: 0, count: 1 };

    /// Parses `K/N`, where K starts at 1.
    ///
    /// Errors: The expected form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        let share = parts.filter(|(k, n): &(usize, usize)| (1..=*n).contains(k));
        let (k, count) = share.ok_or("expected K/N with K from 1 to N, such as 3/10")?;
        Ok(Self { index: k - 1, count })
    }

    /// The share from the engine's variables, or the whole list without any. `shards` is the number of workers, if the
    /// user states it.
    ///
    /// Errors: Contradictory numbers. They could leave a share without a worker, and its images without an audit.
    pub(crate) fn of_environment(lookup: Lookup<'_>, shards: Option<usize>) -> Result<Self, String> {
        let lookup: Lookup<'_> = &|name| lookup(name).filter(|value| !value.is_empty());
        let counted = COUNTED.into_iter().filter_map(|(engine, index, count)| {
            let found = lookup(index)?;
            Some((engine, index, counted_share(lookup, (index, &found), count, shards)))
        });
        let slurm = lookup(SLURM).map(|id| ("Slurm", SLURM, slurm_share(lookup, &id, shards)));
        let all: Vec<_> = counted.chain(slurm).collect();
        match <[_; 1]>::try_from(all) {
            Ok([(_, _, share)]) => share,
            Err(all) if all.is_empty() => match shards {
                None | Some(1) => Ok(Self::WHOLE),
                Some(count) => Err(format!(
                    "--shards {count}, and no engine says which of them this is; --shard K/{count} does"
                )),
            },
            Err(all) => {
                let names: Vec<_> = all
                    .iter()
                    .map(|(engine, name, _)| format!("{name} ({engine})"))
                    .collect();
                Err(format!(
                    "{} are both set; say which share this is by --shard K/N",
                    names.join(" and ")
                ))
            }
        }
    }

    /// Whether the share includes the entry with this number, from 0.
    pub(crate) fn takes(self, entry: usize) -> bool {
        entry % self.count == self.index
    }

    /// The share as `K/N`.
    pub(crate) fn words(self) -> String {
        format!("{}/{}", self.index + 1, self.count)
    }

    fn of_count(index: usize, count: usize, what: &str) -> Result<Self, String> {
        let share = (index < count).then_some(Self { index, count });
        share.ok_or_else(|| {
            format!(
                "{what} is {index}, but {count} shares have the numbers 0 to {}",
                count.saturating_sub(1)
            )
        })
    }
}

fn number(name: &str, text: &str) -> Result<usize, String> {
    let read = text.parse();
    read.map_err(|_| format!("{name} is {text:?}: expected a number"))
}

fn counted_share(
    lookup: Lookup<'_>,
    (name, index): (&str, &str),
    count: &str,
    shards: Option<usize>,
) -> Result<WorkShare, String> {
    let told = lookup(count).map(|text| number(count, &text)).transpose()?;
    let count = match (told, shards) {
        (Some(told), Some(shards)) if told != shards => {
            return Err(format!("{count} is {told}, and --shards says {shards}"));
        }
        (told, shards) => told.or(shards).ok_or_else(|| {
            format!(
                "{name} says which worker this is, and nothing how many there are: --shards N, with the N of the job"
            )
        })?,
    };
    WorkShare::of_count(number(name, index)?, count, name)
}

fn slurm_share(lookup: Lookup<'_>, id: &str, shards: Option<usize>) -> Result<WorkShare, String> {
    let id = number(SLURM, id)?;
    // With --shards, a task's number is its share. So failed tasks of an array can be rerun by number (sbatch
    // --array=3,7), with the same images.
    if let Some(count) = shards {
        return WorkShare::of_count(id, count, &format!("{SLURM} (with --shards, --array begins at 0)"));
    }
    let part = |name: &str, default: Option<usize>| match (lookup(name), default) {
        (Some(text), _) => number(name, &text),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(format!(
            "{SLURM} is set, and {name} is not: --shards N says how many there are"
        )),
    };
    let (first, count) = (
        part("SLURM_ARRAY_TASK_MIN", Some(0))?,
        part("SLURM_ARRAY_TASK_COUNT", None)?,
    );
    let (step, last) = (
        part("SLURM_ARRAY_TASK_STEP", Some(1))?.max(1),
        part("SLURM_ARRAY_TASK_MAX", Some(id))?,
    );
    let place = id.checked_sub(first).map(|from| from / step);
    let is_regular = last
        .checked_sub(first)
        .is_none_or(|span| last == id || span / step + 1 == count);
    match place.filter(|place| is_regular && *place < count) {
        Some(index) => Ok(WorkShare { index, count }),
        None => Err(format!(
            "the tasks of this array are not a regular sequence, so {SLURM} {id} names no share of {count}: --shards N"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::WorkShare;

    fn share(variables: &[(&str, &str)], shards: Option<usize>) -> Result<String, String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        WorkShare::of_environment(&lookup, shards).map(WorkShare::words)
    }

    #[test]
    fn each_engine_gives_the_share_of_a_worker() {
        let slurm = |id, min, max, step, count| {
            let names = ["ID", "MIN", "MAX", "STEP", "COUNT"];
            let names = names.map(|name| format!("SLURM_ARRAY_TASK_{name}"));
            let values: [&str; 5] = [id, min, max, step, count];
            let pairs: Vec<_> = names
                .iter()
                .map(String::as_str)
                .zip(values)
                .filter(|(_, value)| *value != "-")
                .collect();
            share(&pairs, None)
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(share(&[], None), ok("1/1"));
        assert_eq!(share(&[("JOB_COMPLETION_INDEX", "")], None), ok("1/1"));
        assert_eq!(share(&[("JOB_COMPLETION_INDEX", "4")], Some(5)), ok("5/5"));
        let cloud_run = [("CLOUD_RUN_TASK_INDEX", "0"), ("CLOUD_RUN_TASK_COUNT", "7")];
        assert_eq!(share(&cloud_run, None), ok("1/7"));
        assert_eq!(share(&cloud_run, Some(7)), ok("1/7"));
        assert_eq!(
            share(
                &[("AWS_BATCH_JOB_ARRAY_INDEX", "9"), ("AWS_BATCH_JOB_ARRAY_SIZE", "10")],
                None
            ),
            ok("10/10")
        );
        assert_eq!(slurm("7", "1", "10", "1", "10"), ok("7/10"));
        assert_eq!(slurm("5", "1", "9", "4", "3"), ok("2/3"));
        assert_eq!(slurm("0", "-", "-", "-", "3"), ok("1/3"));
        assert_eq!(
            share(
                &[("SLURM_ARRAY_TASK_ID", "7"), ("SLURM_ARRAY_TASK_COUNT", "2")],
                Some(8)
            ),
            ok("8/8")
        );
    }

    #[test]
    fn contradictory_worker_numbers_are_refused() {
        let error = |variables: &[(&str, &str)], shards| share(variables, shards).unwrap_err();
        let both = [("JOB_COMPLETION_INDEX", "0"), ("SLURM_ARRAY_TASK_ID", "0")];
        for (said, expected) in [
            (error(&[("JOB_COMPLETION_INDEX", "0")], None), "--shards N"),
            (
                error(&[("JOB_COMPLETION_INDEX", "5")], Some(5)),
                "shares have the numbers 0 to",
            ),
            (error(&[("JOB_COMPLETION_INDEX", "x")], Some(5)), "expected a number"),
            (
                error(&both, Some(2)),
                "JOB_COMPLETION_INDEX (Kubernetes) and SLURM_ARRAY_TASK_ID (Slurm) are both set",
            ),
            (error(&[], Some(3)), "no engine says which"),
            (
                error(&[("CLOUD_RUN_TASK_INDEX", "0"), ("CLOUD_RUN_TASK_COUNT", "7")], Some(8)),
                "--shards says 8",
            ),
            // sbatch --array=3,7 reruns two tasks of a larger array.
            (
                error(
                    &[
                        ("SLURM_ARRAY_TASK_ID", "3"),
                        ("SLURM_ARRAY_TASK_MIN", "3"),
                        ("SLURM_ARRAY_TASK_MAX", "7"),
                        ("SLURM_ARRAY_TASK_COUNT", "2"),
                    ],
                    None,
                ),
                "not a regular sequence",
            ),
            (
                error(&[("SLURM_ARRAY_TASK_ID", "9")], Some(8)),
                "shares have the numbers 0 to",
            ),
        ] {
            assert!(said.contains(expected), "{said}");
        }
        for text in ["0/3", "4/3", "1", "1/0", "a/b", "-1/3"] {
            assert!(WorkShare::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_cover_every_list_without_gaps_and_overlap() {
        for count in 1..6 {
            let shares: Vec<_> = (1..=count)
                .map(|k| WorkShare::parse(&format!("{k}/{count}")).unwrap())
                .collect();
            for entry in 0..20 {
                assert_eq!(shares.iter().filter(|share| share.takes(entry)).count(), 1);
            }
        }
    }
}
