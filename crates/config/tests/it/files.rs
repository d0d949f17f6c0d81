//! Files on disk: which one is loaded, and what is said when it cannot be.

use std::fs;
use std::path::{Path, PathBuf};

use pointsman_config::{Source, find, load};

use crate::support::{usual, vars};

#[test]
fn the_good_files_load_without_a_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let loaded = load(&path, &usual()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.warnings, [], "{}", path.display());
        assert_eq!(loaded.config.source, Source::File(path));
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn a_named_file_comes_before_the_variable_and_that_before_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path();
    let none = vars(&[]);
    let by_variable = vars(&[("POINTSMAN_CONFIG", "/etc/pointsman.yaml")]);
    assert_eq!(find(None, &none, cwd), None);
    let here = cwd.join("pointsman.yaml");
    fs::write(&here, "").unwrap();
    assert_eq!(find(None, &none, cwd), Some(here.clone()));
    assert_eq!(find(None, &vars(&[("POINTSMAN_CONFIG", "")]), cwd), Some(here));
    assert_eq!(find(None, &by_variable, cwd), Some(PathBuf::from("/etc/pointsman.yaml")));
    assert_eq!(find(Some(Path::new("mine.yaml")), &by_variable, cwd), Some(PathBuf::from("mine.yaml")));
}

#[test]
fn a_file_that_is_not_there_or_not_text_says_so() {
    let problems = load(Path::new("/nonexistent/pointsman.yaml"), &usual()).unwrap_err();
    assert!(problems.to_string().starts_with("/nonexistent/pointsman.yaml: cannot be read: "), "{problems}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin1.yaml");
    fs::write(&path, b"targets:\n  a\xe4: {}\n").unwrap();
    let problems = load(&path, &usual()).unwrap_err();
    assert_eq!(problems.to_string(), format!("{}:2:4: not UTF-8 text", path.display()));
}

#[test]
fn a_file_without_bound_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.yaml");
    fs::write(&path, "#".repeat((4 << 20) + 1)).unwrap();
    let problems = load(&path, &usual()).unwrap_err();
    assert!(problems.to_string().ends_with("larger than 4194304 bytes"), "{problems}");
}
