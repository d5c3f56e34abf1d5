// Writes a routing trace as the accesses of a cache, for cache simulators of others to check hit counts with.
//
// oracleGeneral is libCacheSim's binary format (1a1a11a/libCacheSim,
// libCacheSim/traceReader/customizedReader/ oracle/oracleGeneralBin.h): 24 bytes a request, packed,
// little-endian: u32 time, u64 object, u32 size, i64 next access, which is the 1-based number of the object's
// next request, or -1 if there is none (as its traceConv writes it). Here the time is the token's number and
// every object has size 1. The CSV has the same four columns: time,object,size,next_access.
//   cachesim F oracleGeneral lru 8 --ignore-obj-size 1
//   cachesim F csv lru 8 --ignore-obj-size 1 -t
//   "time-col=1,obj-id-col=2,obj-size-col=3,has-header=true,obj-id-is-num=true"
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "traces/import/input_stream.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

enum class CacheTraceKind { oracle_general, csv };

/// Tokens in order, within a token layers in order, within a layer ids ascending (as `moelab trace hits`
/// looks them up). The object is layer * experts + expert. `layer`: only that one. Memory holds a block of
/// tokens, not the trace. Returns the number of accesses. Writes atomically; throws InputError: no such
/// layer, no accesses, more than 2^32 tokens, cannot be written.
std::uint64_t export_cache_trace(const RoutingTrace& trace, CacheTraceKind kind,
                                 std::optional<std::uint32_t> layer, const std::filesystem::path& out,
                                 const Progress& progress = {});

}  // namespace moelab
