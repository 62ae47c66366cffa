//! What each way launches, to encode and to decode.

use cudarc::driver::{DevicePtr as _, result};

use super::Result;
use super::declare::{ConstPointer, Pointer};
use super::device::{Arrays, Bench, Launch};
use super::job::{CHANGED, CLASSES, COUNTERS, DecoderJob, ENCODER_THREADS, FIRST_CLASS_COUNT, SCAN_TILE, STRING_TILE};
use super::way::Way;

/// What a way launches. The decoder's passes across sequences and its classes are known after it has run once.
pub(crate) struct Plan {
    pub(crate) encode: Vec<Launch>,
    pub(crate) decode: Vec<Launch>,
    pub(crate) stream_bytes: u64,
    pub(crate) index_bytes: u64,
}

impl Bench {
    /// Encodes once, decodes once, and returns what to launch for each.
    pub(crate) fn run_once(&mut self, arrays: &mut Arrays, way: Way) -> Result<Plan> {
        const POISON: u8 = 0xee;
        for address in [&arrays.decoded, &arrays.gaps] {
            let (at, len) = (address.device_ptr(&self.stream).0, address.len());
            // SAFETY: the array's own length.
            unsafe { result::memset_d8_async(at, POISON, len, self.stream.cu_stream()) }?;
        }
        self.stream.memset_zeros(&mut arrays.counters)?;
        match way {
            Way::Coarse { table, block, threads } => self.run_coarse(arrays, table, block, threads),
            Way::Subsequences { gaps, threads, words, sized } => self.run_subsequences(arrays, gaps, (threads, words), sized),
            Way::Lanes { block, warps, kernel } => self.run_lanes(arrays, block, warps, kernel),
        }
    }

    /// What encodes a plain bit string or several, a tile a warp.
    fn plain_encoder(&mut self, write: &str, job: DecoderJob) -> Result<Vec<Launch>> {
        let blocks = job.tiles.div_ceil(ENCODER_THREADS / 32);
        Ok(vec![
            self.resident("plain_sizes", blocks, ENCODER_THREADS, job)?,
            Self::scan("scan_sizes", job),
            self.resident(write, blocks, ENCODER_THREADS, job)?,
        ])
    }

    fn run_coarse(&mut self, arrays: &mut Arrays, table: bool, block: u32, threads: u32) -> Result<Plan> {
        let tiles = arrays.symbol_count.div_ceil(block);
        let job = DecoderJob {
            index: Pointer::new(arrays.index.device_ptr(&self.stream).0),
            tile_len: block,
            tiles,
            scanned: tiles,
            is_aligned: 1,
            ..arrays.job(&self.stream)
        };
        let encode = self.plain_encoder("plain_write", job)?;
        self.run(&encode)?;
        let bits = self.scanned_total(arrays, tiles)?;
        let kernel = if table { "coarse_table" } else { "coarse_bits" };
        let decode = vec![Self::exact(kernel, tiles.div_ceil(threads), threads, job)];
        self.run(&decode)?;
        Ok(Plan { encode, decode, stream_bytes: u64::from(bits) / 8, index_bytes: 4 * u64::from(tiles) })
    }

    /// Sum of all that was scanned last.
    fn scanned_total(&self, arrays: &Arrays, scanned: u32) -> Result<u32> {
        let at = scanned.div_ceil(SCAN_TILE) as usize;
        Ok(self.fetch(&arrays.sums, at..at + 1)?[0])
    }

    fn run_subsequences(&mut self, arrays: &mut Arrays, gaps: bool, shape: (u32, u32), sized: bool) -> Result<Plan> {
        let (threads, words) = shape;
        let subsequence_count = arrays.bits.div_ceil(32 * words);
        let sequences = subsequence_count.div_ceil(threads);
        let tiles = arrays.symbol_count.div_ceil(STRING_TILE);
        let encoder = DecoderJob {
            tile_len: STRING_TILE,
            tiles,
            scanned: tiles,
            subsequence_count,
            subsequence_log: (32 * words).ilog2(),
            sequences,
            sequence_threads: threads,
            ..arrays.job(&self.stream)
        };
        let encode = self.plain_encoder(if gaps { "plain_write_gaps" } else { "plain_write" }, encoder)?;
        self.run(&encode)?;
        let written = self.scanned_total(arrays, tiles)?;
        if written != arrays.bits {
            return Err(format!("the encoder wrote {written} bits, not {}", arrays.bits).into());
        }
        let lists = if sized { Pointer::new(arrays.lists.device_ptr(&self.stream).0) } else { Pointer::NULL };
        let job = DecoderJob { scanned: sequences, lists, ..encoder };
        let named = |what: &str| format!("{what}_{threads}x{words}");
        let mut decode = Vec::new();
        if gaps {
            decode.push(self.resident(&named("count_gaps"), sequences, threads, job)?);
            self.run(&decode)?;
        } else {
            decode.push(self.resident(&named("sync_within"), sequences, threads, job)?);
            self.run(&decode)?;
            // As a host would that looks after each pass whether something has changed.
            for pass in 0..=sequences {
                let across = Self::exact("sync_across", sequences.div_ceil(128), 128, DecoderJob { pass, ..job });
                self.run(std::slice::from_ref(&across))?;
                decode.push(across);
                if self.fetch(&arrays.counters, 0..COUNTERS)?[CHANGED] <= pass {
                    break;
                }
                if pass == sequences {
                    return Err("the sequences never agree".into());
                }
            }
        }
        let scan = Self::scan("scan_totals", job);
        self.run(std::slice::from_ref(&scan))?;
        decode.push(scan);
        let found = self.scanned_total(arrays, sequences)?;
        if found != arrays.symbol_count {
            return Err(format!("the decoder counts {found} symbols, not {}", arrays.symbol_count).into());
        }
        let mut writers = Vec::new();
        if sized {
            // As a host would that reads how many sequences each class has.
            let counters = self.fetch(&arrays.counters, 0..COUNTERS)?;
            for class in 0..CLASSES {
                let count = counters[FIRST_CLASS_COUNT + class];
                if count > 0 {
                    writers.push(self.resident(&format!("{}_{class}", named("write")), count, threads, job)?);
                }
            }
        } else {
            writers.push(self.resident(&format!("{}_{}", named("write"), CLASSES - 1), sequences, threads, job)?);
        }
        self.run(&writers)?;
        decode.extend(writers);
        let stream_bytes = u64::from(arrays.bits.div_ceil(32)) * 4;
        Ok(Plan { encode, decode, stream_bytes, index_bytes: if gaps { u64::from(subsequence_count) } else { 0 } })
    }

    fn run_lanes(&mut self, arrays: &mut Arrays, block: Option<u32>, warps: u32, kernel: &str) -> Result<Plan> {
        let tiles = block.map_or(arrays.blocks, |block| arrays.symbol_count.div_ceil(block));
        let job = DecoderJob {
            index: Pointer::new(arrays.index.device_ptr(&self.stream).0),
            block_starts: if block.is_none() {
                ConstPointer::new(arrays.block_starts.device_ptr(&self.stream).0)
            } else {
                ConstPointer::NULL
            },
            tile_len: block.unwrap_or(arrays.block_len),
            tiles,
            scanned: tiles,
            ..arrays.job(&self.stream)
        };
        let encode = vec![
            // A warp a block of threads: blocks of the stream are long chains, which should all begin at once.
            self.resident("lanes_encode", tiles, 32, job)?,
            Self::scan("scan_sizes", job),
            self.resident("lanes_gather", tiles.div_ceil(ENCODER_THREADS / 32), ENCODER_THREADS, job)?,
        ];
        self.run(&encode)?;
        let words = self.scanned_total(arrays, tiles)?;
        let decode = vec![self.resident(kernel, tiles.div_ceil(warps), 32 * warps, job)?];
        self.run(&decode)?;
        // Where a block begins, and for the stream's own blocks how many symbols stand before.
        let numbers = if block.is_none() { 2 } else { 1 };
        Ok(Plan { encode, decode, stream_bytes: 2 * u64::from(words), index_bytes: 4 * numbers * u64::from(tiles) })
    }
}
