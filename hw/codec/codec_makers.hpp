// What the codec table is made of: a function a codec, defined beside the codec.
#pragma once

#include <memory>

#include "hw/codec/codec.hpp"

namespace moelab {

std::unique_ptr<Codec> make_copy_codec(int level);           // copy_codec.cpp
std::unique_ptr<Codec> make_lz4_codec(int level);            // lz4_codec.cpp
std::unique_ptr<Codec> make_lz4hc_codec(int level);          // lz4_codec.cpp, level 3 ... 12
std::unique_ptr<Codec> make_zstd_codec(int level);           // zstd_codec.cpp, level 1 ... 19
std::unique_ptr<Codec> make_zstd_literals_codec(int level);  // zstd_codec.cpp
std::unique_ptr<Codec> make_fixed3_codec(int level);         // fixed3_codec.cpp
std::unique_ptr<Codec> make_huffman_codec(int level);        // huffman_decoder.cpp, bytes a segment

}  // namespace moelab
