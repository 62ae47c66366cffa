use std::path::Path;
use std::process::Command;

/// The first line of a table of results, which names the format and the commit of the measurement: "measured: format 0.5, commit 5b246b8".
/// h5-samples/measured.py makes an equal line.
#[must_use]
pub fn measured() -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let format = std::fs::read_to_string(repository.join("FORMAT.md")).unwrap_or_default();
    let title = format.lines().next().unwrap_or_default();
    let version = title.rsplit_once("version ").map_or("not known", |(_, version)| version);
    format!("measured: format {version}, commit {}", commit(&repository))
}

/// The commit of the working tree, and whether the tree has changes; "not known" in a copy without git.
fn commit(repository: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "not known".to_owned() };
    // Results do not count as changes: the caller is writing them.
    match git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!h5-samples/results"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit} with changes"),
    }
}

/// Name of the processor, from /proc/cpuinfo.
#[must_use]
pub fn processor() -> String {
    let description = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = description.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_format_and_commit_as_the_python_tools_do() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = Command::new("python3").arg(repository.join("h5-samples/measured.py")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), measured());
        assert!(measured().starts_with("measured: format 1."), "{}", measured());
    }
}
