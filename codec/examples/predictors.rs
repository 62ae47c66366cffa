//! Compresses chunks with every predictor, for h5-samples/predictors.py, which sends the chunks and makes the tables.
//!
//! Standard input has chunks one after the other: a line `TYPE DIMS BOUND FILL`, such as `f32 64x64x64 0.001 none` (an absolute bound; the fill value's
//! bits in hexadecimal, or `none`), then the chunk's bytes, little endian. For each chunk a line of standard output has the predictor that the encoder
//! chose and its bytes, then each predictor and its bytes: the predictor's byte in a plane (FORMAT.md §6).

use std::io::{BufRead, Read, Write};

use quire_codec::stages::predictor::{InterpolationKind, LevelSteps};
use quire_codec::{ByteOrder, Scalar, Shape};
use quire_codec::{Config, Layout, PredictorPolicy, Workspace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut workspace, mut line, mut chunk, mut stream) = (Workspace::default(), String::new(), Vec::new(), Vec::new());
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let [kind, dims, bound, fill] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(format!("{line:?} is not TYPE DIMS BOUND FILL").into());
        };
        let scalar = match kind {
            "f32" => Scalar::F32,
            "f64" => Scalar::F64,
            _ => return Err(format!("type {kind:?} is neither f32 nor f64").into()),
        };
        let dims = dims.split('x').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&dims)? };
        let fill_value = if fill == "none" { None } else { Some(u64::from_str_radix(fill, 16)?) };
        chunk.resize(layout.shape.elements() as usize * scalar.size(), 0);
        input.read_exact(&mut chunk)?;

        let config = Config { fill_value, ..Config::absolute(bound.parse()?)? };
        let sets = (0..1 << dims.len()).map(|set: u8| (set.to_string(), PredictorPolicy::Axes(set)));
        let kinds =
            (0..(1 << dims.len()) - 1).flat_map(|rough| [false, true].map(|is_linear| InterpolationKind::new(rough, is_linear)));
        let kinds = kinds.flat_map(|kind| LevelSteps::ALL.map(|steps| kind.with_steps(steps)));
        let interpolations = kinds.map(|kind| (kind.to_byte().to_string(), PredictorPolicy::Interpolation(kind)));
        let forced = sets.chain(interpolations);
        for (name, predictor) in std::iter::once(("chosen".to_owned(), PredictorPolicy::Auto)).chain(forced) {
            stream.clear();
            workspace.compress(&chunk, &layout, &Config { predictor, ..config }, &mut stream)?;
            write!(output, "{name} {} ", stream.len())?;
        }
        writeln!(output)?;
        output.flush()?;
    }
}
