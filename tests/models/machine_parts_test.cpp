// Machines put together from catalogue parts.
#include "models/machine_parts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::machine_parts_test {
namespace {

std::string refusal(const MachineText& text) {
  try {
    (void)machine_of(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("parts: what macOS lets a GPU take is what Metal says", "[parts]") {
  // recommendedMaxWorkingSetSize as llama.cpp logs it: 11453.25 million bytes of 16 GiB, 21845.34 MiB of 32
  // GiB, 28991.03 million bytes of 36 GiB; and 48 of 64, 144 of 192 GiB.
  const auto share = [](const std::string& ram) {
    return machine_of({.gpu = "apple-m2-max", .ram = ram}).gpu_share_of_ram().value().value();
  };
  CHECK(share("16 GiB") == Approx(11453.25e6));
  CHECK(share("32 GiB") == Approx(21845.34 * 0x1p20));
  CHECK(share("36 GiB") == Approx(28991.03e6));
  CHECK(share("64 GiB") == Approx(48 * 0x1p30));
  CHECK(share("192 GiB") == Approx(144 * 0x1p30));
  CHECK_FALSE(machine_of({.gpu = "apple-m2-max"}).gpu_share_of_ram());
  CHECK_FALSE(machine_of({.gpu = "jetson-orin-nx-16gb", .ram = "16 GiB"}).gpu_share_of_ram());
}

TEST_CASE("parts: Linux gives a GPU of AMD half of the memory", "[parts]") {
  // As AMD's amd-ttm prints a machine's own setting: 16469033 pages of 4 KiB, 62.82 of 125.65 GiB.
  const auto share = [](const char* gpu) {
    return machine_of({.gpu = gpu, .ram = "125.65 GiB"}).gtt_share_of_ram();
  };
  CHECK(share("strix-halo").value().value() == Approx(16469033 * 4096.0).epsilon(1e-4));
  CHECK_FALSE(share("apple-m4-max"));
  CHECK_FALSE(machine_of({.gpu = "rx-7900-xtx", .ram = "64 GiB"}).gtt_share_of_ram());
}

TEST_CASE("parts: an SSD reads no faster than the board's slot carries", "[parts]") {
  const auto machine = [](const char* gpu, const char* ssd) {
    return machine_of({.gpu = gpu, .ram = "8 GiB", .ssd = ssd});
  };
  // Four lanes of 8 GT/s in blocks of 128 of 130 bits.
  const double slot = 4 * 8e9 / 8 * 128 / 130;
  for (const char* ssd : {"pcie4-x4", "pcie5-x4", "samsung-990-pro"}) {
    const MachineParts capped = machine("jetson-orin-nano-8gb", ssd);
    CHECK(capped.ssd_in_slot().read.value() == Approx(slot));
    CHECK(capped.slot_note().find("carries 3.938 GB/s at most (pcie3-x4)") != std::string::npos);
  }
  for (const char* ssd : {"pcie3-x4", "sata", "samsung-970-evo-plus"}) {
    CHECK(machine("jetson-orin-nano-8gb", ssd).ssd_in_slot().read == find_ssd(ssd).read);
    CHECK(machine("jetson-orin-nano-8gb", ssd).slot_note().empty());
  }
  CHECK(machine("jetson-orin-nx-16gb", "pcie5-x4").ssd_in_slot().read.value() == Approx(2 * slot));
  CHECK(machine("strix-halo", "pcie5-x4").ssd_in_slot().read.value() == Approx(2 * slot));
  // Of other machines nothing is known of slots.
  CHECK(machine_of({.gpu = "rtx-4090", .ssd = "pcie5-x4"}).slot_note().empty());
}

TEST_CASE("parts: each chip has its own cores", "[parts]") {
  const struct {
    const char* gpu;
    int cores;
    double clock;
  } boards[] = {{"jetson-orin-nano-8gb", 6, 1.5e9},
                {"jetson-orin-nano-super", 6, 1.7e9},
                {"jetson-orin-nx-16gb", 8, 2.0e9},
                {"jetson-agx-orin-32gb", 8, 2.2e9},
                {"jetson-agx-orin-64gb", 12, 2.2e9}};  // NVIDIA's data sheets
  for (const auto& board : boards) {
    INFO(board.gpu);
    const CpuPart cores = machine_of({.gpu = board.gpu}).cores().value();
    CHECK(cores.cores == board.cores);
    CHECK(cores.clock == board.clock);
    CHECK(cores.generation == "cortex-a78ae");
  }
  // A name for the family means the board's: that of 32 GB has eight cores.
  CHECK(machine_of({.gpu = "jetson-agx-orin-32gb", .cpu = "jetson-agx-orin"}).cores()->cores == 8);
  CHECK(machine_of({.gpu = "jetson-agx-orin-64gb", .cpu = "jetson-agx-orin"}).cores()->cores == 12);
  CHECK_FALSE(machine_of({.gpu = "rtx-4090"}).cores());
  for (const GpuPart& part : gpu_parts()) {
    INFO(part.name);
    if (!part.cpu.empty()) CHECK(find_cpu(part.cpu).name == part.cpu);
    if (!part.ssd_slot.empty()) CHECK(part.unified());
  }
}

/// A file that is there while the test runs.
class Written {
 public:
  std::string operator()(const std::string& name, const std::string& text) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path) << text;
    return path;
  }

 private:
  test::ScratchFolder folder_;
};

constexpr const char* kOwnGpu =
    "{name: my-board-16gb, maker: nvidia, generation: ampere, bandwidth: 120 GB/s, peak: 20 TFLOP/s, "
    "unified: "
    "true, cpu: jetson-orin-nx, ssd_slot: pcie3-x2}";

TEST_CASE("parts: one's own, as a map and as a file", "[parts]") {
  const MachineParts machine = machine_of({.gpu = kOwnGpu, .ssd = "{name: x, read: 5 GB/s, latency: 70 us}"});
  CHECK(machine.title() == "my-board-16gb");
  CHECK(machine.gpu->own);
  CHECK(machine.gpu->bandwidth == BytesPerSecond(120e9));
  CHECK(machine.gpu->byte_products == find_gpu("rtx-a6000").byte_products);  // of its generation
  CHECK(machine.ram == Bytes(16 * 0x1p30));
  CHECK(machine.cores()->name == "jetson-orin-nx-16gb");
  CHECK(machine.ssd_in_slot().read.value() == Approx(2 * 8e9 / 8 * 128 / 130));
  const Written written;
  const std::string file =
      written("my-gpu.yaml",
              "name: my-card\nmaker: amd\ngeneration: rdna4\nmemory: 24 GB\nbandwidth: 700 "
              "GB/s\npeak: 150 TFLOP/s\nlink: pcie5-x16\n");
  const std::string held = held_part(PartKind::gpu, file);
  CHECK(gpu_part(held).name == "my-card");
  CHECK(gpu_part(held).memory == Bytes(24 * 0x1p30));
  CHECK(held_part(PartKind::gpu, held) == held);
  CHECK(held_part(PartKind::gpu, "rtx-4090") == "rtx-4090");
}

TEST_CASE("parts: one's own is read strictly, and faults are said where they are", "[parts]") {
  const Written written;
  const std::string file =
      written("bad-gpu.yaml",
              "name: my-card\nmaker: nvidea\ngeneration: ada\nbandwith: 700 GB/s\npeak: 150 "
              "TFLOP/s\nlink: pcie5-x16\n");
  const auto faults = [](const std::string& text) {
    Problems problems;
    const YamlDocument document = YamlDocument::from_text("desk.yaml", text, problems);
    CHECK_FALSE(read_machine(document.root()));
    std::string all;
    for (const Problem& problem : problems.all()) all += to_string(problem) + "\n";
    return all;
  };
  const auto contains = [](const std::string& all, const std::string& what) {
    CAPTURE(all, what);
    CHECK(all.find(what) != std::string::npos);
  };
  const std::string of_file = faults("gpu: " + file + "\n");
  contains(of_file, "desk.yaml:1:");
  contains(of_file, "bad-gpu.yaml:2:");  // with what is known
  contains(of_file, "did you mean 'nvidia'?");
  contains(of_file, "bad-gpu.yaml:4:");
  contains(of_file, "did you mean 'bandwidth'?");
  // A generation decides how fast it is: a slip is not taken for a new one.
  const std::string gpu = "name: x\nmaker: nvidia\nbandwidth: 700 GB/s\npeak: 150 TFLOP/s\n";
  contains(faults("gpu: " + written("slip.yaml", gpu + "generation: Ada\nmemory: 24 GB\nlink: pcie4-x16\n")),
           "no part of the catalogue is of generation 'Ada' (did you mean 'ada'?)");
  const std::string described = "generation: rubin\nmemory: 24 GB\nlink: pcie4-x16\nbyte_products: 2\n";
  CHECK(gpu_part(held_part(PartKind::gpu, written("new.yaml", gpu + described))).byte_products == 2);
  contains(faults("gpu: " + written("no-memory.yaml", gpu + "generation: ada\nlink: pcie4-x16\n")),
           "expected the memory of a GPU that has a link");
  contains(faults("gpu: " + written("unified.yaml", gpu + "generation: ada\nunified: true\nmemory: 24 GB\n")),
           "is the host's where 'unified: true'");
  contains(faults("gpu: " + written("nameless.yaml",
                                    "name: ''\nmaker: nvidia\nbandwidth: 700 GB/s\npeak: 150 TFLOP/s\n"
                                    "generation: ada\nmemory: 24 GB\nlink: pcie4-x16\n")),
           "expected what the part is called");
  contains(faults("gpu: strix-halo\ncpu: ryzen-ai\nram: 64 GB\n"), "unknown CPU 'ryzen-ai'");
  const std::string in_place = faults("cpu: i7-8700\nssd:\n  name: x\n  read: 5 GB\n  latency: 70 us\n");
  contains(in_place, "desk.yaml:4:");
  CHECK(std::count(in_place.begin(), in_place.end(), '\n') == 1);
  contains(faults("gpu: no-such.yaml\n"), "there is no file 'no-such.yaml'");
  contains(faults("gpu: rtx-4091\n"), "ending in .yaml");
  const std::string unlike = faults("gpu: [rtx-5090-32gb, rtx-3090-24gb]\n");
  contains(unlike, "unlike GPUs in one machine are not simulated");
  contains(unlike, "gpus: 2");
  CHECK(std::count(unlike.begin(), unlike.end(), '\n') == 1);
  contains(refusal({.gpu = "{name: x}"}), "gpu: ");
}

TEST_CASE("parts: what is wrong of one hides nothing of the others", "[parts]") {
  const std::string all = refusal({.gpu = "rtx-4091", .cpu = "i9-14900Q", .ram = "64", .ssd = "floppy"});
  for (const char* what : {"unknown GPU 'rtx-4091'", "i9-14900Q", "ram '64'", "floppy"}) {
    CAPTURE(all, what);
    CHECK(all.find(what) != std::string::npos);
  }
}

TEST_CASE("parts: every row of the catalogue reads, and is found by its name", "[parts][plain]") {
  CHECK(gpu_parts().size() > 100);
  CHECK(cpu_parts().size() > 400);
  CHECK(ssd_parts().size() > 10);
  for (const GpuPart& p : gpu_parts()) {
    INFO(p.name);
    CHECK(&find_gpu(p.name) == &p);
    // From a Raspberry Pi's to a rack's: what lies outside is a slip of a key.
    CHECK((p.bandwidth.value() > 50e9 && p.bandwidth.value() <= 8e12));
    CHECK((p.peak.value() > 1e12 && p.peak.value() < 3e15));
    CHECK(p.unified() == (p.memory == Bytes(0)));
    if (!p.unified()) CHECK(link_rate(p.link).value() > 1e9);
    // From V100's NVLink to Blackwell's, and faster than the way over the host.
    if (const double peers = p.peer_link.value(); peers > 0)
      CHECK((peers >= 150e9 && peers <= 900e9 && peers > link_rate(p.link).value()));
  }
  // Boards that plug into PCIe have bridges at most, which are sold apart.
  for (const char* name :
       {"a100-80gb-pcie", "a100-40gb-pcie", "a100-pcie-40gb", "h100-pcie", "h100-nvl", "rtx-3090", "l40s"})
    CHECK(find_gpu(name).peer_link == BytesPerSecond(0));
  for (const CpuPart& p : cpu_parts()) {
    INFO(p.name);
    CHECK(&find_cpu(p.name) == &p);
    CHECK(&find_cpu(p.title) == &p);
    CHECK((p.clock >= 1.5e9 && p.clock < 6e9));
    const MemoryPart memory = read_memory("", &p);
    CHECK((memory.bandwidth().value() > 15e9 && memory.bandwidth().value() < 1e12));
  }
}

TEST_CASE("parts: data sheets' figures that people know by heart", "[parts]") {
  // Data sheets: RTX 4090 1008 GB/s, 24 GB; A100 80 GB SXM 2039 GB/s, 312 TFLOP/s; M4 Pro 273 GB/s.
  CHECK(find_gpu("rtx-4090-24gb").bandwidth == BytesPerSecond(1008e9));
  CHECK(find_gpu("rtx-4090-24gb").memory == Bytes(24 * 0x1p30));
  CHECK(&find_gpu("apple-m4-max-128gb") == &find_gpu("apple-m4-max"));
  CHECK(&find_gpu("NVIDIA GeForce RTX 4090") == &find_gpu("rtx-4090"));
  CHECK(&find_gpu("RTX 4090 24GB") == &find_gpu("rtx-4090-24gb"));
  CHECK(&find_gpu("Radeon 8060S") == &find_gpu("radeon-8060s"));
  for (const GpuPart& part : gpu_parts()) {
    INFO(part.title);
    CHECK(find_gpu(part.title).title == part.title);
  }
  CHECK_THROWS_AS(find_gpu("rtx-4090-12gb"), InputError);
  CHECK(find_gpu("a100-80gb").bandwidth == BytesPerSecond(2039e9));
  CHECK(find_gpu("a100-80gb").peak == FlopsPerSecond(312e12));
  CHECK(find_gpu("apple-m4-pro").bandwidth == BytesPerSecond(273e9));
  // 16 lanes of 16 GT/s in blocks of 128 of 130 bits.
  CHECK(link_rate("pcie4-x16").value() == Approx(16 * 16e9 / 8 * 128 / 130));
  // EPYC 9355: 12 channels of DDR5-6400 are 614.4 GB/s.
  CHECK(read_memory("", &find_cpu("epyc-9355")).bandwidth().value() == Approx(614.4e9));
}

TEST_CASE("parts: CPUs by what programs and people call them", "[parts]") {
  const char* const names[][2] = {{"Intel(R) Core(TM) i9-10900X CPU @ 3.70GHz", "core-i9-10900x"},
                                  {"i9-14900K", "core-i9-14900k"},
                                  {"i7-8700", "core-i7-8700"},
                                  {"EPYC 9355 (16 threads used)", "epyc-9355"},
                                  {"Xeon Gold 6454S", "xeon-gold-6454s"},
                                  {"Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "xeon-e5-2680-v4"},
                                  {"AMD Ryzen 9 7950X 16-Core Processor", "ryzen-9-7950x"},
                                  {"AMD EPYC 7742 64-Core Processor", "epyc-7742"},
                                  {"Intel(R) Xeon(R) Platinum 8480+", "xeon-platinum-8480+"},
                                  {"Ryzen 7 7800X3D", "ryzen-7-7800x3d"},
                                  {"AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "ryzen-ai-max-395"},
                                  {"Threadripper PRO 7965WX", "threadripper-pro-7965wx"},
                                  {"12th Gen Intel(R) Core(TM) i5-12600KF", "core-i5-12600kf"},
                                  {"Intel(R) Core(TM) Ultra 7 265", "core-ultra-7-265"},
                                  {"AMD Ryzen 5 8400F 6-Core Processor", "ryzen-5-8400f"},
                                  {"Apple M4 Pro", "apple-m4-pro"}};
  for (const auto& [text, name] : names) {
    INFO(text);
    CHECK(find_cpu(text).name == name);
  }
  CHECK_THROWS_AS(find_cpu("i9-14900Q"), InputError);
  // A series is no model: none of these is a Raspberry Pi 5, nor the CPU with the nearest number.
  for (const char* text : {"AMD Ryzen 5 2600Z Six-Core Processor", "Ryzen 5 7640HS",
                           "Intel Core Ultra 5 135U", "Core 5 210H", "Xeon 5", "Snapdragon 8 Gen 5", "Pi 4"})
    CHECK_THROWS_AS(find_cpu(text), InputError);
  CHECK_THROWS_AS(find_cpu("Ryzen"), InputError);
  CHECK_THROWS_AS(find_cpu(""), InputError);
}

TEST_CASE("parts: memory as people write it", "[parts]") {
  const CpuPart& core = find_cpu("i9-14900K");
  CHECK(read_memory("ddr5-6800, 2 channels (assumed)", &core).bandwidth().value() == Approx(108.8e9));
  CHECK(read_memory("ddr5-6000 x 2", &core).bandwidth().value() == Approx(96e9));
  CHECK(read_memory("DDR5-6000", &core).bandwidth().value() == Approx(96e9));
  CHECK(read_memory("ddr4-3200, 2 channels", &core).bandwidth().value() == Approx(51.2e9));
  CHECK(read_memory("not stated", &core).bandwidth().value() == Approx(89.6e9));  // DDR5-5600, two channels
  CHECK(read_memory("ddr4, 4 channels, 102 GB/s as the source says", &find_cpu("i9-10900X")).bandwidth() ==
        BytesPerSecond(102e9));
  CHECK(read_memory("unified 204.8 GB/s", nullptr).bandwidth() == BytesPerSecond(204.8e9));
  CHECK_THROWS_AS(read_memory("ddr5-6000", &find_cpu("i7-8700")), InputError);
  CHECK_THROWS_AS(read_memory("ddr9-6000", &core), InputError);
  CHECK_THROWS_AS(read_memory("ddr3-1600 x 2", &core), InputError);  // it takes DDR4 and DDR5
  CHECK_THROWS_AS(read_memory("lpddr5x-8533 x 2", &core), InputError);
  CHECK_THROWS_AS(read_memory("ddr5-6000 x", &core), InputError);
  CHECK_THROWS_AS(read_memory("ddr5-1", &core), InputError);
  // What is no number of channels, and no rate, is no memory.
  for (const char* text : {"ddr5-6000 x 0", "ddr5-6000 x -2", "ddr5-6000 x 2.5", "ddr5-6000 x 99999999999",
                           "unified 0 GB/s", "unified -5 GB/s", "unified 1e30 GB/s"}) {
    INFO(text);
    CHECK_THROWS_AS(read_memory(text, &find_cpu("Ryzen 9 7950X")), InputError);
  }
  CHECK(read_memory("ddr5-6000 x 2 (assumed)", nullptr).channels == 2);
}

TEST_CASE("parts: a machine that cannot be is refused with the reason", "[parts]") {
  CHECK(refusal({}).find("needs a GPU or a CPU") != std::string::npos);
  CHECK(refusal({.gpu = "rtx-4091"}).find("rtx-4090") != std::string::npos);
  CHECK(refusal({.cpu = "i9-14900K", .sockets = 2}).find("1 socket") != std::string::npos);
  CHECK(refusal({.cpu = "i7-8700", .memory = "ddr5-6000"}).find("takes ddr4") != std::string::npos);
  CHECK(refusal({.gpu = "apple-m4-pro", .gpus = 2}).find("there is one") != std::string::npos);
  CHECK(refusal({.gpu = "rtx-4090", .ram = "64"}).find("ram '64'") != std::string::npos);
  CHECK(refusal({.gpu = "rtx-4090", .cpu = "Ryzen 9 7950X", .ram = "64 GiB", .ssd = "pcie4-x4"}) ==
        "accepted");
  // What is wrong is said of its key.
  CHECK(refusal({.gpu = "rtx-4091"}).starts_with("gpu: unknown GPU"));
  CHECK(refusal({.gpu = "rtx-4090", .cpu = "i9-14900Q"}).starts_with("cpu: "));
  CHECK(refusal({.gpu = "rtx-4090", .ssd = "floppy"}).starts_with("ssd: "));
  CHECK(refusal({.cpu = "i9-14900K", .sockets = 2}).starts_with("sockets: "));
  CHECK(refusal({.cpu = "i7-8700", .memory = "ddr5-6000"}).starts_with("memory 'ddr5-6000'"));
  for (const char* link : {"pcie9-x16", "pcie4-x", "pcie4-x16b", "pcie4-x64", "", "pcie", "nvlink"})
    CHECK_THROWS_AS(link_rate(link), InputError);
}

TEST_CASE("parts: in a file, what is wrong is said at its key's place", "[parts]") {
  Problems problems;
  const YamlDocument document =
      YamlDocument::from_text("desk.yaml", "cpu: i7-8700\nmemory: ddr5-6000\nram: 64 GiB\n", problems);
  CHECK_FALSE(read_machine(document.root()));
  REQUIRE(problems.all().size() == 1);
  CHECK(problems.all().front().line == 2);
  CHECK(problems.all().front().what == "memory 'ddr5-6000': Intel Core i7-8700 takes ddr4");
  Problems none;
  const YamlDocument good = YamlDocument::from_text(
      "desk.yaml",
      "{gpu: rtx-4090-24gb, cpu: ryzen-9-7950x, memory: ddr5-6000 x 2, ram: 64 GiB, ssd: pcie4-x4}", none);
  const MachineText text = read_machine_text(good.root());
  CHECK(none.empty());
  CHECK(text.gpu == "rtx-4090-24gb");
  CHECK(text.gpus == 1);
  CHECK(text.memory == "ddr5-6000 x 2");
  CHECK(text.ssd == "pcie4-x4");
}

TEST_CASE("parts: which CPUs have AVX-512", "[parts]") {
  for (const CpuPart& cpu : cpu_parts()) {
    INFO(cpu.name);
    // 64 FLOPs a core and clock are two units of 512 bits; AMX and the table's 8-bit products came with
    // AVX-512.
    if (cpu.flops_per_cycle >= 64 || cpu.amx || cpu.byte_products > 1) CHECK(cpu.avx512());
    if (cpu.flops_per_cycle < 32 || cpu.title.starts_with("Apple")) CHECK_FALSE(cpu.avx512());
  }
  // By Intel's and AMD's pages, also where a core has one such unit.
  for (const char* with : {"xeon-gold-5118", "xeon-silver-4114", "core-i9-10900x", "core-i7-11700",
                           "ryzen-9-7950x", "epyc-9355"})
    CHECK(find_cpu(with).avx512());
  for (const char* without : {"core-i7-6700k", "core-i9-10900k", "core-i9-14900k", "core-ultra-9-285k",
                              "ryzen-9-5950x", "epyc-7742", "xeon-e5-2680-v4"})
    CHECK_FALSE(find_cpu(without).avx512());
}

TEST_CASE("machine: memory is what its CPU can have, of all sockets or of one") {
  const auto rate = [](const char* memory, int sockets) {
    return machine_of({.cpu = "epyc-9135", .sockets = sockets, .memory = memory}).host_bandwidth().value();
  };
  CHECK(rate("ddr5-6000, 12 channels", 1) == Approx(12 * 8 * 6000e6));
  CHECK(rate("ddr5-6000, 12 channels", 2) == Approx(2 * 12 * 8 * 6000e6));
  CHECK(rate("ddr5-6000, 24 channels total over 2 sockets", 2) == Approx(2 * 12 * 8 * 6000e6));
  CHECK_THROWS_AS(rate("ddr5-6000, 24 channels", 1), InputError);
  const auto refused = [](const MachineText& text, const std::string& what) {
    try {
      machine_of(text);
    } catch (const InputError& error) {
      return std::string(error.what()).find(what) != std::string::npos;
    }
    return false;
  };
  CHECK(refused({.cpu = "ryzen-9-7950x", .memory = "ddr5-6000 x 20"}, "has 2 channels"));
  CHECK(refused({.cpu = "i7-8700", .memory = "unified 800 GB/s"}, "modules"));
  CHECK(refused({.gpu = "apple-m4-max", .cpu = "ryzen-9-7950x"}, "its own CPU"));
  CHECK(refused({.gpu = "jetson-agx-orin-32gb", .ram = "64 GiB"}, "has 34.36 GB"));
  CHECK(machine_of({.gpu = "jetson-orin-nano-8gb"}).ram == Bytes(8 * 0x1p30));
  CHECK(machine_of({.gpu = "apple-m4-max-128gb"}).ram == Bytes(128 * 0x1p30));
  CHECK_FALSE(machine_of({.gpu = "apple-m4-max"}).ram);
}

}  // namespace
}  // namespace moelab::machine_parts_test
