//! Images go through stages: they are decoded, filtered and encoded.

use std::io::Cursor;
use std::sync::{Mutex, mpsc};

use png::{BitDepth, ColorType, Decoder, Encoder};
use ways::{Part, channel, each, switch, together};

const IMAGES: usize = 5;

#[derive(Clone, Debug, PartialEq)]
struct Image {
    width: u32,
    height: u32,
    /// Three bytes for each pixel.
    bytes: Vec<u8>,
}

impl Image {
    fn drawn(number: usize) -> Image {
        let (width, height) = (20 + number as u32, 15);
        let pixel = |x: u32, y: u32| [x * y, x ^ y, x * x + number as u32].map(|value| value as u8);
        let bytes = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
        Image { width, height, bytes }
    }

    fn decode(file: &[u8]) -> Image {
        let mut reader = Decoder::new(Cursor::new(file)).read_info().unwrap();
        let (width, height) = (reader.info().width, reader.info().height);
        let mut bytes = Vec::new();
        while let Some(row) = reader.next_row().unwrap() {
            switch();
            bytes.extend_from_slice(row.data());
        }
        Image { width, height, bytes }
    }

    /// The mean of each pixel and its neighbours.
    fn blurred(&self) -> Image {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for y in 0..self.height {
            switch();
            for x in 0..self.width {
                for colour in 0..3 {
                    let (mut sum, mut count) = (0_u32, 0);
                    for beside_y in y.saturating_sub(1)..(y + 2).min(self.height) {
                        for beside_x in x.saturating_sub(1)..(x + 2).min(self.width) {
                            sum += u32::from(self.bytes[((beside_y * self.width + beside_x) * 3 + colour) as usize]);
                            count += 1;
                        }
                    }
                    bytes.push((sum / count) as u8);
                }
            }
        }
        Image { bytes, ..self.clone() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        switch();
        writer.write_image_data(&self.bytes).unwrap();
        writer.finish().unwrap();
        file
    }
}

fn drawn() -> Vec<Vec<u8>> {
    together(1, |_| (0..IMAGES).map(|number| Image::drawn(number).encode()).collect::<Vec<_>>()).concat()
}

/// One strand for each stage.
fn stages_are_linked_by_channels() -> Vec<Vec<u8>> {
    let files = drawn();
    let (decoded, to_filter) = channel(2);
    let (filtered, to_encode) = channel(1);
    let stages: [Part<Vec<Vec<u8>>>; 3] = [
        Box::new(move || {
            files.iter().for_each(|file| decoded.send(Image::decode(file)));
            Vec::new()
        }),
        Box::new(move || {
            std::iter::from_fn(|| to_filter.receive()).for_each(|image: Image| filtered.send(image.blurred()));
            Vec::new()
        }),
        Box::new(move || std::iter::from_fn(|| to_encode.receive()).map(|image| image.encode()).collect()),
    ];
    each(stages, |stage| stage()).concat()
}

/// Two strands filter, and all wait in the kernel, at channels of the standard library.
fn stages_are_linked_by_channels_of_threads() -> Vec<Vec<u8>> {
    let files = drawn();
    let (decoded, to_filter) = mpsc::sync_channel(1);
    let (filtered, to_encode) = mpsc::channel();
    let (to_filter, other_filtered) = (Mutex::new(to_filter), filtered.clone());
    let filter = |filtered: mpsc::Sender<_>| {
        loop {
            let next = to_filter.lock().unwrap().recv();
            let Ok((number, image)) = next else { return Vec::new() };
            filtered.send((number, Image::blurred(&image))).unwrap();
        }
    };
    let stages: [Part<Vec<Vec<u8>>>; 4] = [
        Box::new(|| {
            let decoded = decoded;
            files.iter().enumerate().for_each(|each| decoded.send((each.0, Image::decode(each.1))).unwrap());
            Vec::new()
        }),
        Box::new(|| filter(filtered)),
        Box::new(|| filter(other_filtered)),
        Box::new(move || {
            let mut images: Vec<(usize, Image)> = to_encode.iter().collect();
            images.sort_by_key(|image| image.0);
            images.iter().map(|image| image.1.encode()).collect()
        }),
    ];
    each(stages, |stage| stage()).concat()
}

mod switching {
    use super::*;
    ways::in_every_way! {
        stages_are_linked_by_channels
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        stages_are_linked_by_channels_of_threads
    }
}
