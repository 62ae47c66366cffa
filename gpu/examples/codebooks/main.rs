//! Building a codebook against choosing one: `cargo run --release -p quire-gpu --example codebooks [-- RUNS]`.
//!
//! Shah et al. (ICS'23) find choosing from a dictionary 78 to 92 times faster than building. Here the same histogram, which lies on the
//! device as a coder's first kernel leaves it, becomes canonical codes on the device in these ways, for our 106 symbols and for 256 and 1024:
//!
//! * **host**: the histogram comes to the host, Huffman's algorithm runs there, the codes go back. No fewer steps are possible.
//! * **device**: package-merge in one block of threads (`kernels/measure/codebooks.cu`), so that nothing travels.
//! * **choose**: the cheapest of 75 books, its codes read from a table (the same file).
//! * **ours**: the plugin's own kernel (`kernels/entropy/codebook.cuh`), which has 106 symbols.
//!
//! Every result is checked first: lengths cost what the host's package-merge costs, choices are the host's. Then the ways take turns, run
//! after run, and three clocks are read: the host's around launch and wait, events around the work, and events around a hundred recorded
//! launches, divided. Events and launches have a floor of their own, which an empty kernel shows.

#[path = "../../src/declare.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate's own file, of which this takes a part")]
mod declare;
mod device;
mod histograms;
mod host;
#[path = "../../src/job/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the crate's own file, of which this takes a part")]
mod job;
#[path = "../../src/tables.rs"]
mod tables;
mod way;

use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::{codebook, dictionary};

use device::{Bench, ROW};
use histograms::{FAMILIES, SCALES, VALUES, books, histogram, sample};
use host::{Huffman, cheapest, check_codes, cost, lengths_of, package_merge, widened};
use job::BOOKS;
use way::{ALPHABETS, Alphabet, Times, Way};

fn main() {
    let runs = std::env::args().nth(1).map_or(201, |text| text.parse().expect("a number of runs"));
    check_host();
    let name = match quire_gpu::device(0) {
        Ok(device) => device.name(),
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            return println!("the host's part is right; no GPU: {reason}");
        }
    };
    println!("machine: {name}, {} cores, {}", std::thread::available_parallelism().map_or(1, usize::from), processor());
    println!("command: cargo run --release -p quire-gpu --example codebooks -- {runs}");
    println!(
        "us, median (quartiles) of {runs} runs for each of {} histograms of {VALUES} values\n",
        FAMILIES.len() * SCALES.len()
    );
    println!(
        "{:<8} {:<34} {:>23}  {:>23}  {:>23}",
        "symbols",
        "way",
        "host's clock, wait too",
        "events around it",
        format!("{ROW} in a row, each")
    );
    let mut claims = Vec::new();
    for alphabet in &ALPHABETS {
        claims.push(measure(alphabet, runs));
    }
    println!(
        "\ntimes that choosing is faster (medians; on the device's side alone: the host's algorithm without copies and waits,"
    );
    println!("and launches in a row)\n");
    println!(
        "{:<8} {:>18} {:>18} | {:>18} {:>18} | {:>18} {:>18}",
        "symbols", "host, host's clock", "device", "host, events", "device", "host, alone", "device, in a row"
    );
    for claim in claims {
        println!("{claim}");
    }
}

/// The host's ways against each other and the codec's, on any machine.
fn check_host() {
    for alphabet in &ALPHABETS {
        let books = books(alphabet);
        assert_eq!(books.len(), BOOKS);
        let mut huffman = Huffman::new(alphabet.symbols);
        let mut codes = vec![0; alphabet.symbols];
        for (_, draw) in FAMILIES {
            for scale in SCALES {
                let histogram = histogram(alphabet, &sample(draw, scale));
                let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
                assert!(total * u64::from(alphabet.max_bits) < 1 << 32, "weights of package-merge fit 32 bits on the device");
                huffman.build(&histogram, &mut codes);
                check_codes(&codes, &histogram);
                let free = cost(&histogram, &lengths_of(&codes));
                assert_eq!(free, cost(&histogram, &package_merge(&widened(&histogram), 27)), "Huffman's cost, without a limit");
                let limited = package_merge(&widened(&histogram), alphabet.max_bits);
                assert!(cost(&histogram, &limited) >= free);
                assert!(cheapest(&histogram, &books).1 >= cost(&histogram, &limited), "no book is better than the best");
                if alphabet.symbols == SYMBOLS {
                    let wide = std::array::from_fn(|symbol| u64::from(histogram[symbol]));
                    assert_eq!(limited, codebook::optimal_lengths(&wide), "the codec's package-merge");
                    assert_eq!(cheapest(&histogram, &books).0, usize::from(dictionary::cheapest(&wide).0));
                }
            }
        }
    }
}

/// Checks and times all ways for one alphabet; prints a row each. Returns the line of the last table.
fn measure(alphabet: &Alphabet, runs: usize) -> String {
    let books = books(alphabet);
    let mut bench = Bench::new(alphabet, &books);
    let mut ways = vec![Way::Empty, Way::HostHuffman, Way::Sort, Way::Build, Way::Choose];
    if alphabet.symbols == SYMBOLS {
        ways.insert(2, Way::HostPackageMerge);
        ways.extend([Way::OursDictionary, Way::OursAuto, Way::OursCustom]);
    }
    let mut times: Vec<Times> = ways.iter().map(|_| Times::default()).collect();
    let mut details = Vec::new();
    for (family, draw) in FAMILIES {
        for scale in SCALES {
            let histogram = histogram(alphabet, &sample(draw, scale));
            bench.set_histogram(&histogram);
            for &way in &ways {
                bench.check(way, alphabet, &histogram, &books);
            }
            let one = bench.time(&ways, runs);
            details.push(detail(&format!("{family} {scale}"), alphabet, &histogram, &books, &ways, &one));
            for (all, one) in times.iter_mut().zip(one) {
                all.clock.extend(one.clock);
                all.events.extend(one.events);
                all.row.extend(one.row);
                for (all, one) in all.parts.iter_mut().zip(one.parts) {
                    all.extend(one);
                }
            }
        }
    }
    for (way, times) in ways.iter().zip(&times) {
        let rest = if way.is_on_host() {
            let [fetch, build, send] = times.parts.each_ref().map(|part| at(part, 0.5));
            format!("fetch {fetch:.1}, build {build:.1}, send {send:.1}")
        } else {
            cell(&times.row)
        };
        let name = way.name(alphabet);
        println!("{:<8} {name:<34} {:>23}  {:>23}  {rest:>23}", alphabet.symbols, cell(&times.clock), cell(&times.events));
    }
    println!("         by histogram: bits a symbol built and chosen; in a row, or alone on the host: {}", names(&ways, alphabet));
    for detail in details {
        println!("         {detail}");
    }
    let of = |way: Way| &times[ways.iter().position(|&other| other == way).expect("every alphabet has it")];
    let (host, build, choose) = (of(Way::HostHuffman), of(Way::Build), of(Way::Choose));
    let ratio = |slow: &[f64], fast: &[f64]| format!("{:.1}", at(slow, 0.5) / at(fast, 0.5));
    format!(
        "{:<8} {:>18} {:>18} | {:>18} {:>18} | {:>18} {:>18}",
        alphabet.symbols,
        ratio(&host.clock, &choose.clock),
        ratio(&build.clock, &choose.clock),
        ratio(&host.events, &choose.events),
        ratio(&build.events, &choose.events),
        ratio(&host.parts[1], &choose.row),
        ratio(&build.row, &choose.row)
    )
}

fn names(ways: &[Way], alphabet: &Alphabet) -> String {
    ways[1..].iter().map(|way| way.name(alphabet)).collect::<Vec<_>>().join(" | ")
}

/// A histogram's line.
fn detail(name: &str, alphabet: &Alphabet, histogram: &[u32], books: &[Vec<u8>], ways: &[Way], times: &[Times]) -> String {
    let total: f64 = histogram.iter().map(|&count| f64::from(count)).sum();
    let built = cost(histogram, &package_merge(&widened(histogram), alphabet.max_bits)) as f64 / total;
    let chosen = cheapest(histogram, books).1 as f64 / total;
    let own = ways[1..].iter().zip(&times[1..]).map(|(way, times)| {
        let own = if way.is_on_host() { &times.parts[1] } else { &times.row };
        format!("{:>7.2}", at(own, 0.5))
    });
    format!("{name:<14} {built:>6.3} {chosen:>6.3} (+{:>4.1} %) {}", (chosen / built - 1.0) * 100.0, own.collect::<String>())
}

fn cell(times: &[f64]) -> String {
    format!("{:.2} ({:.2}-{:.2})", at(times, 0.5), at(times, 0.25), at(times, 0.75))
}

fn at(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn processor() -> String {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    model.trim_start_matches([' ', '\t', ':']).to_owned()
}
