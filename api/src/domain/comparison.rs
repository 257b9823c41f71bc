//! Comparison of two works: the differences in the thread time of each part and in the software.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    breakdown::{RowKey, Table},
    fixed_point::Millionths,
};

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Only the second work has the part.
    Added,
    /// Only the first work has the part.
    Removed,
    /// Both works have the part, with different values.
    Changed,
    /// Both works have the part, with equal values.
    Unchanged,
}

/// The values of one part in both works.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The part.
    pub key: RowKey,
    /// The value in the first work. `None` if it does not have the part.
    pub base: Option<Millionths>,
    /// The value in the second work. `None` if it does not have the part.
    pub head: Option<Millionths>,
}

impl Difference {
    /// Returns the increase from the first to the second work.
    #[must_use]
    pub fn delta(&self) -> Millionths {
        self.head.unwrap_or_default() - self.base.unwrap_or_default()
    }

    /// Returns the kind of the difference.
    #[must_use]
    pub fn status(&self) -> Status {
        match (self.base, self.head) {
            (None, _) => Status::Added,
            (_, None) => Status::Removed,
            (base, head) if base == head => Status::Unchanged,
            _ => Status::Changed,
        }
    }
}

/// Returns the differences between two breakdowns with the same parameters, the largest first. They add
/// up exactly to the difference of the totals.
#[must_use]
pub fn differences(base: &Table, head: &Table) -> Vec<Difference> {
    let mut values: HashMap<&RowKey, (Option<Millionths>, Option<Millionths>)> = HashMap::new();
    for row in base.rows.iter().filter(|row| base.is_part_of_total(row.key.part)) {
        values.entry(&row.key).or_default().0 = Some(row.value);
    }
    for row in head.rows.iter().filter(|row| head.is_part_of_total(row.key.part)) {
        values.entry(&row.key).or_default().1 = Some(row.value);
    }
    let differences = values.into_iter();
    let mut differences: Vec<Difference> =
        differences.map(|(key, (base, head))| Difference { key: key.clone(), base, head }).collect();
    differences.sort_by(|a, b| {
        let by_size = b.delta().magnitude().cmp(&a.delta().magnitude());
        by_size.then_with(|| a.key.cmp(&b.key))
    });
    differences
}

/// The software environment of some processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Software {
    /// Versions of Python.
    pub python: BTreeSet<String>,
    /// Operating systems with their releases.
    pub os: BTreeSet<String>,
    /// Architectures.
    pub machine: BTreeSet<String>,
    /// Versions of the installed packages, by name.
    pub packages: BTreeMap<String, BTreeSet<String>>,
}

/// A property whose values changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name of the property.
    pub name: String,
    /// The earlier values.
    pub from: Vec<String>,
    /// The later values.
    pub to: Vec<String>,
}

/// The differences between the software of two works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoftwareChange {
    /// Packages that only the second work has.
    pub added: Vec<Change>,
    /// Packages that only the first work has.
    pub removed: Vec<Change>,
    /// Packages that both works have, in different versions.
    pub changed: Vec<Change>,
    /// Python, if its version changed.
    pub python: Option<Change>,
    /// The operating system, if it changed.
    pub os: Option<Change>,
    /// The architecture, if it changed.
    pub machine: Option<Change>,
}

impl SoftwareChange {
    /// Compares the software of two works. A property that is unknown for one of them counts as
    /// unchanged.
    #[must_use]
    pub fn between(base: &Software, head: &Software) -> Self {
        let change_of = |name: &str, from: &BTreeSet<String>, to: &BTreeSet<String>| {
            (!from.is_empty() && !to.is_empty()).then(|| change(name, from, to)).flatten()
        };
        let mut differences = Self {
            python: change_of("Python", &base.python, &head.python),
            os: change_of("operating system", &base.os, &head.os),
            machine: change_of("architecture", &base.machine, &head.machine),
            ..Self::default()
        };
        if base.packages.is_empty() || head.packages.is_empty() {
            return differences;
        }
        let no_versions = BTreeSet::new();
        let names: BTreeSet<&String> = base.packages.keys().chain(head.packages.keys()).collect();
        for name in names {
            let (from, to) = (base.packages.get(name), head.packages.get(name));
            let list = match (from, to) {
                (None, _) => &mut differences.added,
                (_, None) => &mut differences.removed,
                _ => &mut differences.changed,
            };
            list.extend(change(name, from.unwrap_or(&no_versions), to.unwrap_or(&no_versions)));
        }
        differences
    }

    /// Iterates over all changes: first Python and the platform, then packages.
    pub fn all(&self) -> impl Iterator<Item = &Change> {
        let platform = [&self.python, &self.os, &self.machine].into_iter().flatten();
        platform.chain(&self.changed).chain(&self.added).chain(&self.removed)
    }
}

fn change(name: &str, from: &BTreeSet<String>, to: &BTreeSet<String>) -> Option<Change> {
    let list = |values: &BTreeSet<String>| values.iter().cloned().collect();
    (from != to).then(|| Change { name: name.to_owned(), from: list(from), to: list(to) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::breakdown::{Row, ValueKind};

    fn table(unit: &str, rows: &[(ValueKind, &str, f64)]) -> Table {
        let rows: Vec<Row> = rows
            .iter()
            .map(|(part, function, value)| Row {
                key: RowKey {
                    part: *part,
                    span_attributable: true,
                    path: None,
                    tag: None,
                    context: None,
                    function: Some((*function).to_owned()),
                    activity: None,
                    cluster: None,
                    user: None,
                },
                value: Millionths::of(*value),
            })
            .collect();
        let mut table = Table {
            unit: unit.to_owned(),
            units: BTreeSet::new(),
            total: Millionths::default(),
            idle: None,
            without_metrics: 0,
            without_threads: 0,
            rows,
        };
        table.total =
            table.rows.iter().filter(|row| table.is_part_of_total(row.key.part)).map(|row| row.value).sum();
        table
    }

    #[test]
    fn differences_add_up_to_that_of_the_totals() {
        let base = [
            (ValueKind::Tasks, "load", 0.1),
            (ValueKind::Tasks, "fit", 0.7),
            (ValueKind::OutsideTasks, "x", 5.0),
        ];
        let head = [
            (ValueKind::Tasks, "load", 0.3),
            (ValueKind::Tasks, "save", 0.2),
            (ValueKind::Tasks, "fit", 0.7),
        ];
        let (base, head) = (table("seconds", &base), table("seconds", &head));
        let found = differences(&base, &head);
        let rows: Vec<_> = found
            .iter()
            .map(|row| (row.key.function.as_deref().unwrap_or_default(), row.status(), row.delta().value()))
            .collect();
        let expected =
            [("load", Status::Changed, 0.2), ("save", Status::Added, 0.2), ("fit", Status::Unchanged, 0.0)];
        assert_eq!(rows, expected);
        assert_eq!(found.iter().map(Difference::delta).sum::<Millionths>(), head.total - base.total);
        let back = differences(&head, &base);
        assert_eq!(back[1].status(), Status::Removed);
    }

    #[test]
    fn software_changes_where_both_tell_of_it() {
        let set = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<BTreeSet<_>>();
        let base = Software {
            python: set(&["3.11"]),
            os: set(&["Linux 6.1"]),
            machine: set(&["x86_64"]),
            packages: [("dask", "1"), ("numpy", "1.26"), ("lz4", "4")]
                .map(|(name, version)| (name.to_owned(), set(&[version])))
                .into(),
        };
        let mut head = base.clone();
        head.python = set(&["3.12"]);
        head.os = BTreeSet::new();
        head.packages.remove("lz4");
        head.packages.insert("numpy".to_owned(), set(&["1.26", "2.0"]));
        head.packages.insert("pandas".to_owned(), set(&["2"]));
        let change = |name: &str, from: &[&str], to: &[&str]| Change {
            name: name.to_owned(),
            from: from.iter().map(|value| (*value).to_owned()).collect(),
            to: to.iter().map(|value| (*value).to_owned()).collect(),
        };
        let found = SoftwareChange::between(&base, &head);
        let expected = SoftwareChange {
            added: vec![change("pandas", &[], &["2"])],
            removed: vec![change("lz4", &["4"], &[])],
            changed: vec![change("numpy", &["1.26"], &["1.26", "2.0"])],
            python: Some(change("Python", &["3.11"], &["3.12"])),
            os: None,
            machine: None,
        };
        assert_eq!(found, expected);
        assert_eq!(found.all().count(), 4);
        assert_eq!(SoftwareChange::between(&Software::default(), &base), SoftwareChange::default());
    }
}
