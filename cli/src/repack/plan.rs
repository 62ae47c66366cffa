//! Which datasets are compressed, and how; which are not, and why.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use h5zquire::{FILTER_ID, cd_values};
use hdf5::plist::dataset_create::Layout;
use quire_codec::{Config, options};

use super::Arguments;
use crate::arguments::Shape;
use crate::compare::Kind;
use crate::datasets::{Named, Source, block_of, find_in, written_boxes};
use crate::inspect::filter_name;
use crate::library::links::{Token, attribute_names};
use crate::library::{message, objects};
use crate::names::Name;

/// The datasets of a file to compress, and the skipped ones.
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Index into `tasks` by the dataset's address.
    pub(super) by_token: HashMap<Token, usize>,
    /// Paths of the skipped datasets, with the reason.
    pub(super) skipped: Vec<(Name, String)>,
}

/// A dataset to be compressed.
pub(super) struct Task {
    pub(super) path: Name,
    pub(super) source: Source,
    pub(super) options: String,
    pub(super) config: Config<'static>,
    pub(super) words: Vec<u32>,
    /// Its new chunks, which may reach beyond its extents.
    pub(super) chunk: Vec<usize>,
    /// Chunks with written values. All others hold only the fill value.
    pub(super) boxes: Vec<Vec<(usize, usize)>>,
}

impl Task {
    /// Bytes of all values.
    pub(super) fn bytes(&self) -> u64 {
        dataset_bytes(&self.source)
    }

    /// Bytes of the values that are written.
    pub(super) fn bytes_written(&self) -> u64 {
        let values = |ranges: &Vec<(usize, usize)>| ranges.iter().map(|&(_, count)| count as u64).product::<u64>();
        self.boxes.iter().map(values).sum::<u64>() * self.source.numbers.scalar.size() as u64
    }

    /// Element type and fill value for comparing its values.
    pub(super) fn kind(&self) -> Kind<'_> {
        self.source.kind()
    }
}

fn dataset_bytes(source: &Source) -> u64 {
    source.extents.iter().map(|&extent| extent as u64).product::<u64>() * source.numbers.scalar.size() as u64
}

impl Plan {
    /// Looks at all datasets of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or a path of `--only` or a shape of `--chunks` matches no dataset.
    pub(super) fn new(input: &Name, arguments: &Arguments, options: &str) -> Result<Self, String> {
        let mut selection = Selection::default();
        for path in &arguments.only {
            let below_root = path.as_bytes().iter().position(|&byte| byte != b'/').unwrap_or(path.len());
            let inside = Name::new([b"/", &path.as_bytes()[below_root..]].concat());
            let found = find_in(&arguments.input, &inside, &inside.in_file(&arguments.input))?;
            if let [Named { path, token, .. }] = &found[..]
                && *path == inside
            {
                selection.named.push(*token);
            }
            selection.all.extend(found.into_iter().map(|named| named.token));
        }
        let mut plan = Self { tasks: Vec::new(), by_token: HashMap::new(), skipped: Vec::new() };
        let mut ranks = Vec::new();
        for named in find_in(&arguments.input, &"/".into(), input)? {
            // It could not be compared with its copy either.
            let dataset = named.dataset.as_ref().map_err(|reason| format!("{}: {reason}", named.name))?;
            ranks.push(dataset.ndim());
            let (path, token) = (named.path.clone(), named.token);
            match decide(named, arguments, options, &selection) {
                Ok(task) => {
                    plan.by_token.insert(token, plan.tasks.len());
                    plan.tasks.push(task);
                }
                Err(reason) => plan.skipped.push((path, reason)),
            }
        }
        match arguments.chunks.iter().find(|Shape(sides)| !ranks.contains(&sides.len())) {
            Some(Shape(sides)) => Err(format!("chunks of {sides:?} have {} axes, which no dataset of {input} has", sides.len())),
            None => Ok(plan),
        }
    }
}

/// The datasets that `--only` selects.
#[derive(Default)]
struct Selection {
    /// All selected datasets.
    all: Vec<Token>,
    /// Datasets that are named themselves, not by a group.
    named: Vec<Token>,
}

/// The task for a dataset, or the reason why it is skipped.
fn decide(named: Named, arguments: &Arguments, given: &str, selection: &Selection) -> Result<Task, String> {
    let Named { dataset, path, token, .. } = named;
    let dataset = dataset?;
    if !arguments.only.is_empty() && !selection.all.contains(&token) {
        return Err("--only does not name it".to_owned());
    }
    let is_named = selection.named.contains(&token);
    let failed = message::<hdf5::Error>;
    let properties = dataset.dcpl().map_err(failed)?;
    let extents = dataset.shape();
    if extents.is_empty() {
        return Err("it is a scalar, which HDF5 cannot store in chunks".to_owned());
    }
    if dataset.size() == 0 {
        return Err("it has no values".to_owned());
    }
    if objects::is_external(&properties) || properties.layout() == Layout::Virtual {
        return Err("its values lie in other datasets or files".to_owned());
    }
    let filters = properties.get_filters().map_err(failed)?;
    if filters.iter().any(|filter| filter.id() == FILTER_ID) {
        return Err("it is compressed with this filter already: compress the original anew for another bound".to_owned());
    }
    if let Some(filter) = filters.iter().find(|filter| !filter.is_available()) {
        return Err(format!("it is compressed with {}, which HDF5 does not find here", filter_name(filter)));
    }
    let own_chunk = dataset.chunk();
    let maxima = dataset.space().map_err(failed)?.maxdims();
    let is_scale = attribute_names(&dataset)?.iter().any(|name| name.as_bytes() == b"CLASS")
        && dataset
            .attr("CLASS")
            .and_then(|class| class.read_scalar::<hdf5::types::FixedAscii<32>>())
            .is_ok_and(|class| class.as_str() == "DIMENSION_SCALE");
    let source = Source::new(dataset, path.clone(), None)?;
    let scalar = source.numbers.scalar;
    let bytes = dataset_bytes(&source);
    if bytes < arguments.min_size && !is_named {
        return Err(format!("it has {bytes} bytes, fewer than --min-size={}", arguments.min_size));
    }
    if is_scale && !is_named {
        return Err(
            "it is a dimension scale, whose coordinates programs compare exactly; name it with --only to compress it".to_owned()
        );
    }
    let mut config = options::parse(given).map_err(message)?;
    if !scalar.is_float() && !arguments.round_integers {
        config = config.with_bound(quire_codec::ErrorBound::Lossless);
    }
    let asked = arguments.chunks.iter().find(|Shape(sides)| sides.len() == extents.len());
    let chunk = match (asked, &own_chunk) {
        // HDF5 refuses chunks longer than an axis that cannot grow.
        (Some(Shape(sides)), _) => {
            let limits = maxima.iter().zip(&extents).map(|(most, extent)| most.map_or(usize::MAX, |most| most.max(*extent)));
            sides.iter().zip(limits).map(|(&side, most)| side.min(most)).collect()
        }
        (None, Some(own)) => own.clone(),
        (None, None) => block_of(&extents),
    };
    let boxes = written_boxes(&source.dataset, &chunk)?;
    let options = options::format(&config);
    let words = cd_values::from_options(&options).map_err(message)?;
    let config = Config { fill_value: source.fill_value, ..config };
    let layout = quire_codec::Layout {
        scalar,
        byte_order: source.numbers.byte_order,
        shape: quire_codec::Shape::fold(&[1]).map_err(message)?,
    };
    quire_codec::check_bound(&layout, &config).map_err(message)?;
    Ok(Task { path, source, options, config, words, chunk, boxes })
}
