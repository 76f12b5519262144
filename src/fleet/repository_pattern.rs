//! Parses `registry:HOST[/REPOSITORY][:TAG]`, which selects repositories and tags of a registry.

use std::collections::BTreeSet;

use globset::{Glob, GlobBuilder, GlobMatcher};

/// Repositories and tags of a registry, selected by patterns.
#[derive(Debug, Clone)]
pub(crate) struct RepositoryPattern {
    /// The host of the registry, with an optional port.
    pub registry: String,
    repository: String,
    repositories: GlobMatcher,
    tags: GlobMatcher,
}

impl RepositoryPattern {
    /// Parses the text after `registry:`. `*` matches within a name component, `**` any number of components; no
    /// pattern matches everything.
    ///
    /// Errors: The problem, and the expected form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (registry, path) = text.split_once('/').unwrap_or((text, ""));
        // A digest names a single image, so there is nothing to list.
        if registry.is_empty() || registry.contains(['*', '{']) || text.contains('@') {
            return Err(format!(
                "registry:{text}: expected registry:HOST/REPOSITORY:TAG, such as registry:reg.example/team/*:v*"
            ));
        }
        let (repository, tag) = path.split_once(':').unwrap_or((path, ""));
        let glob = |pattern: &str, all: &str| -> Result<Glob, String> {
            let pattern = if pattern.is_empty() { all } else { pattern };
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            glob.map_err(|error| format!("registry:{text}: {error}"))
        };
        let repository = match registry {
            // As in every other command, official images may omit `library/`.
            "docker.io" if !repository.is_empty() && !repository.contains('/') => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        Ok(Self {
            registry: registry.to_owned(),
            repositories: glob(&repository, "**")?.compile_matcher(),
            tags: glob(tag, "*")?.compile_matcher(),
            repository,
        })
    }

    /// The single selected repository. It needs no list of repositories, which many registries refuse.
    pub(crate) fn only_repository(&self) -> Option<&str> {
        let is_pattern = self.repository.is_empty() || self.repository.contains(['*', '?', '[', '{']);
        (!is_pattern).then_some(self.repository.as_str())
    }

    /// The matching names.
    pub(crate) fn matching_repositories(&self, names: BTreeSet<String>) -> impl Iterator<Item = String> {
        names.into_iter().filter(|name| self.repositories.is_match(name))
    }

    /// The references with matching tags.
    pub(crate) fn references(&self, repository: &str, tags: BTreeSet<String>) -> Vec<String> {
        let tags = tags.into_iter().filter(|tag| self.tags.is_match(tag));
        tags.map(|tag| format!("{}/{repository}:{tag}", self.registry))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::RepositoryPattern;
    use std::collections::BTreeSet;

    #[test]
    fn patterns_choose_repositories_and_tags() {
        let names = || {
            ["a", "team/a", "team/b", "team/x/y"]
                .map(str::to_owned)
                .into_iter()
                .collect::<BTreeSet<_>>()
        };
        for (text, repositories, references) in [
            (
                "r.io",
                vec!["a", "team/a", "team/b", "team/x/y"],
                vec!["r.io/a:1.0", "r.io/a:2"],
            ),
            (
                "r.io:5000/team/*",
                vec!["team/a", "team/b"],
                vec!["r.io:5000/a:1.0", "r.io:5000/a:2"],
            ),
            (
                "r.io/team/**:1*",
                vec!["team/a", "team/b", "team/x/y"],
                vec!["r.io/a:1.0"],
            ),
            ("r.io/{a,team/b}:{2,3}", vec!["a", "team/b"], vec!["r.io/a:2"]),
        ] {
            let pattern = RepositoryPattern::parse(text).unwrap();
            assert_eq!(pattern.only_repository(), None, "{text}");
            assert_eq!(
                pattern.matching_repositories(names()).collect::<Vec<_>>(),
                repositories,
                "{text}"
            );
            let tags = ["2", "1.0"].map(str::to_owned).into_iter().collect();
            assert_eq!(pattern.references("a", tags), references, "{text}");
        }
        let only = |text| {
            RepositoryPattern::parse(text)
                .unwrap()
                .only_repository()
                .map(str::to_owned)
        };
        assert_eq!(only("r.io/team/a:v*").as_deref(), Some("team/a"));
        assert_eq!(only("docker.io/ubuntu").as_deref(), Some("library/ubuntu"));
        for text in ["", "/a", "*/a", "r.io/a[", "r.io/a@sha256:1"] {
            assert!(RepositoryPattern::parse(text).is_err(), "{text}");
        }
    }
}
