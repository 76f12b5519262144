//! The members of an archive by name, including links between them.

use std::collections::BTreeMap;

use crate::image_error::ImageError;
use image_linkage::escape;
use image_linkage::path::RootPath;

/// The members of one archive. `T` describes a stored file. The last member of a name wins, as in extraction.
pub(crate) struct MemberCatalog<T> {
    what: String,
    links: usize,
    members: BTreeMap<RootPath, ArchiveNode<T>>,
}

enum ArchiveNode<T> {
    Stored(T),
    Link(RootPath),
}

impl<T> MemberCatalog<T> {
    /// An empty catalog for the archive that errors call `what`. At most `links` links are followed.
    pub(crate) fn new(what: &str, links: usize) -> Self {
        Self {
            what: what.to_owned(),
            links,
            members: BTreeMap::new(),
        }
    }

    /// The archive's name in errors.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Adds a stored file.
    pub(crate) fn store(&mut self, name: RootPath, member: T) {
        self.members.insert(name, ArchiveNode::Stored(member));
    }

    /// Adds a link to the member `target`, which may come later or never.
    pub(crate) fn link(&mut self, name: RootPath, target: RootPath) {
        self.members.insert(name, ArchiveNode::Link(target));
    }

    /// The name of the stored file that `name` resolves to; `None` if there is none.
    ///
    /// Errors: [`ImageError::NotAnImage`] for a cycle or too many links.
    pub(crate) fn follow<'a>(&'a self, name: &'a RootPath) -> Result<Option<&'a RootPath>, ImageError> {
        // Iterative: `manifest.json -> config.json -> manifest.json` overflowed the stack of another reader
        // (go-containerregistry 2232).
        let mut at = name;
        for _ in 0..=self.links {
            match self.members.get(at) {
                None => return Ok(None),
                Some(ArchiveNode::Stored(_)) => return Ok(Some(at)),
                Some(ArchiveNode::Link(target)) => at = target,
            }
        }
        Err(ImageError::not_an_image(
            &self.what,
            format!(
                "its member {} leads through more than {} links, or in a circle",
                escape::escape_bytes(name.as_bytes()),
                self.links
            ),
        ))
    }

    /// The stored file that `name` resolves to.
    pub(crate) fn get(&self, name: &RootPath) -> Result<Option<&T>, ImageError> {
        let Some(found) = self.follow(name)? else {
            return Ok(None);
        };
        match self.members.get(found) {
            Some(ArchiveNode::Stored(member)) => Ok(Some(member)),
            _ => Ok(None),
        }
    }

    /// Removes the stored file with exactly this name.
    pub(crate) fn take(&mut self, name: &RootPath) -> Option<T> {
        // Without following links: the caller has resolved the name.
        match self.members.remove(name) {
            Some(ArchiveNode::Stored(member)) => Some(member),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MemberCatalog;
    use image_linkage::path::RootPath;

    fn catalog() -> MemberCatalog<u8> {
        let mut catalog = MemberCatalog::new("saved.tar", 3);
        catalog.store("d".into(), 1);
        for (name, target) in [("c", "d"), ("b", "c"), ("a", "b"), ("z", "a"), ("lost", "x")] {
            catalog.link(name.into(), target.into());
        }
        catalog.link("m.json".into(), "c.json".into());
        catalog.link("c.json".into(), "m.json".into());
        catalog
    }

    #[test]
    fn links_are_followed_to_the_stored_file_and_no_further_than_the_limit() {
        let catalog = catalog();
        assert_eq!(catalog.get(&"d".into()).unwrap(), Some(&1));
        assert_eq!(catalog.get(&"a".into()).unwrap(), Some(&1));
        assert_eq!(catalog.get(&"lost".into()).unwrap(), None);
        assert_eq!(catalog.follow(&"b".into()).unwrap(), Some(&RootPath::from("d")));
        assert_eq!(
            catalog.get(&"z".into()).unwrap_err().to_string(),
            "saved.tar is not a container image: its member z leads through more than 3 links, or in a circle"
        );
    }

    #[test]
    fn links_in_a_circle_are_an_error() {
        assert_eq!(
            catalog().get(&"m.json".into()).unwrap_err().to_string(),
            "saved.tar is not a container image: its member m.json leads through more than 3 links, or in a circle"
        );
    }
}
