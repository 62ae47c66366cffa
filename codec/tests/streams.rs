//! The streams of the folder `streams/` at the repository's root, with which others can test their readers: `streams.csv` lists them. Valid ones decode to the
//! values that it names, and faulty ones are refused with the message that it has.
//!
//! `cargo test -p quire-codec --test streams -- --ignored` fills in the messages. The folder that QUIRE_STREAMS names, which `streams/random_streams.py`
//! writes, is tested, too; its faulty streams have no messages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quire_codec::{ByteOrder, Header, Layout, Scalar, Shape, Workspace};

const FOLDERS: [&str; 3] = ["valid", "uncommon", "faulty"];
/// The table's columns. No field has a semicolon.
const COLUMNS: &str = "file;about;type;order;dims;bytes;values_crc;file_crc;section;message";
/// No listed chunk is longer, and no header of a faulty stream promises more.
const MOST_BYTES: u64 = 1 << 20;

struct Row {
    /// The folder of the table.
    folder: PathBuf,
    file: String,
    about: String,
    scalar: String,
    order: String,
    dims: String,
    bytes: String,
    values_crc: String,
    file_crc: String,
    section: String,
    message: String,
}

impl Row {
    fn of_line(folder: &Path, line: &str) -> Self {
        let folder = folder.to_owned();
        let fields: Vec<String> = line.split(';').map(str::to_owned).collect();
        let fields: [String; 10] = fields.try_into().unwrap_or_else(|fields| panic!("{line}: {fields:?}"));
        let [file, about, scalar, order, dims, bytes, values_crc, file_crc, section, message] = fields;
        Self { folder, file, about, scalar, order, dims, bytes, values_crc, file_crc, section, message }
    }

    fn line(&self) -> String {
        let Self { folder: _, file, about, scalar, order, dims, bytes, values_crc, file_crc, section, message } = self;
        [file, about, scalar, order, dims, bytes, values_crc, file_crc, section, message].map(String::as_str).join(";")
    }

    fn is_faulty(&self) -> bool {
        self.file.starts_with("faulty/")
    }

    fn stream(&self) -> Vec<u8> {
        std::fs::read(self.folder.join(&self.file)).unwrap_or_else(|error| panic!("{}: {error}", self.file))
    }

    /// The layout that the table names.
    fn layout(&self) -> Layout {
        let named = |scalar: &&Scalar| format!("{scalar:?}").to_lowercase() == self.scalar;
        let scalar = *Scalar::ALL.iter().find(named).unwrap_or_else(|| panic!("{}: type {}", self.file, self.scalar));
        let byte_order = match self.order.as_str() {
            "little" => ByteOrder::Little,
            "big" => ByteOrder::Big,
            other => panic!("{}: order {other}", self.file),
        };
        let dims: Vec<u64> = self.dims.split('x').map(|extent| extent.parse().expect("an extent")).collect();
        Layout { scalar, byte_order, shape: Shape::new(&dims).expect("a shape") }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../streams")
}

/// The folder `streams/`, and that of random streams if there is one.
fn folders() -> Vec<PathBuf> {
    let random = std::env::var_os("QUIRE_STREAMS").map(PathBuf::from);
    println!("random streams, of QUIRE_STREAMS: {random:?}");
    [folder()].into_iter().chain(random).collect()
}

/// The rows of a folder's table.
fn rows_of(folder: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(folder.join("streams.csv")).expect("the table");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(COLUMNS));
    lines.map(|line| Row::of_line(folder, line)).collect()
}

fn rows() -> Vec<Row> {
    folders().iter().flat_map(|folder| rows_of(folder)).collect()
}

fn crc(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// The message for a faulty stream, or `None` if it is read. The caller expects the chunk that the header promises.
fn refusal(workspace: &mut Workspace, stream: &[u8]) -> Option<String> {
    let len = Header::read_from(stream).map_or(0, |header| header.layout.chunk_bytes());
    assert!(len <= MOST_BYTES, "the header promises {len} bytes");
    workspace.decompress(stream, &mut vec![0; len as usize]).err().map(|error| error.to_string())
}

#[test]
fn tables_list_the_files_that_there_are() {
    for folder in folders() {
        let rows = rows_of(&folder);
        let listed: BTreeSet<String> = rows.iter().map(|row| row.file.clone()).collect();
        assert_eq!(listed.len(), rows.len(), "a file is listed twice");
        let mut there = BTreeSet::new();
        for name in FOLDERS {
            for entry in std::fs::read_dir(folder.join(name)).expect("a folder of streams") {
                there.insert(format!("{name}/{}", entry.expect("an entry").file_name().to_string_lossy()));
            }
        }
        assert_eq!(there, listed);
        for row in rows {
            assert!(!row.about.is_empty(), "{}", row.file);
            assert_eq!(crc(&row.stream()), row.file_crc, "{}: its bytes have changed", row.file);
        }
    }
}

#[test]
fn valid_streams_decode_to_the_values_of_the_table() {
    // One workspace: what a stream leaves in its buffers must not matter to the next one.
    let (mut workspace, mut found) = (Workspace::default(), 0);
    for row in rows().iter().filter(|row| !row.is_faulty()) {
        found += 1;
        assert!(row.section.is_empty() && row.message.is_empty(), "{}", row.file);
        let (stream, layout) = (row.stream(), row.layout());
        let header = Header::read_from(&stream).unwrap_or_else(|error| panic!("{}: {error}", row.file));
        assert_eq!(header.layout, layout, "{}", row.file);
        assert!(layout.chunk_bytes() <= MOST_BYTES && layout.chunk_bytes().to_string() == row.bytes, "{}", row.file);
        let mut values = vec![0xee; layout.chunk_bytes() as usize];
        workspace.decompress(&stream, &mut values).unwrap_or_else(|error| panic!("{}: {error}", row.file));
        assert_eq!(crc(&values), row.values_crc, "{}: other values", row.file);
    }
    assert!(found > 100, "{found}");
}

#[test]
fn valid_streams_of_another_length_than_expected_are_refused() {
    let mut workspace = Workspace::default();
    for row in rows().iter().filter(|row| !row.is_faulty()) {
        let (stream, layout) = (row.stream(), row.layout());
        let (bytes, value) = (layout.chunk_bytes() as usize, layout.scalar.size());
        for other in [0, bytes - value, bytes - 1, bytes + 1, bytes + value, 2 * bytes] {
            let error = workspace.decompress(&stream, &mut vec![0; other]).err();
            assert!(error.is_some(), "{}: read as {other} bytes in place of {bytes}", row.file);
        }
    }
}

#[test]
fn faulty_streams_are_refused_with_the_message_of_the_table() {
    let (mut workspace, mut found) = (Workspace::default(), 0);
    for row in rows().iter().filter(|row| row.is_faulty()) {
        found += 1;
        let message = refusal(&mut workspace, &row.stream()).unwrap_or_else(|| panic!("{} is read", row.file));
        if row.folder == folder() {
            assert!(!row.section.is_empty() && !row.message.is_empty(), "{}: write_messages fills in what is missing", row.file);
            assert_eq!(message, row.message, "{}", row.file);
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
#[ignore = "writes the messages of faulty streams into the table"]
fn write_messages() {
    let (mut rows, mut workspace) = (rows_of(&folder()), Workspace::default());
    for row in rows.iter_mut().filter(|row| row.is_faulty()) {
        row.message = refusal(&mut workspace, &row.stream()).unwrap_or_else(|| panic!("{} is read", row.file));
        assert!(!row.message.contains([';', '\n']), "{}: {}", row.file, row.message);
    }
    let lines: Vec<String> = std::iter::once(COLUMNS.to_owned()).chain(rows.iter().map(Row::line)).collect();
    std::fs::write(folder().join("streams.csv"), lines.join("\n") + "\n").expect("the table is written");
}
